#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "backend/backend.h"

namespace planish::backend {
namespace {

struct Added {
  std::mutex mutex;
  std::deque<Backend> backends;  // their places stay
};

Added& added() {
  static Added one;
  return one;
}

std::string joined(std::vector<std::string> words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

}  // namespace

const Language* Backend::language(std::string_view called) const {
  const auto found = std::ranges::find(languages, called, &Language::name);
  return found == languages.end() ? nullptr : &*found;
}

std::string Backend::language_names() const {
  std::vector<std::string> names;
  for (const Language& one : languages) names.push_back(one.name);
  return joined(std::move(names));
}

std::vector<const Backend*> all() {
  std::vector<const Backend*> out{&cuda(), &cpu()};
  std::scoped_lock lock(added().mutex);
  for (const Backend& one : added().backends) out.push_back(&one);
  return out;
}

const Backend* find(std::string_view name) {
  const auto known = all();
  const auto found = std::ranges::find_if(known, [name](const Backend* one) { return one->name == name; });
  return found == known.end() ? nullptr : *found;
}

const Backend& named(std::string_view name) {
  static const Backend unknown{.name = "", .title = "an unknown target", .languages = {}, .held = {}, .certainty = {}};
  const Backend* found = find(name);
  return found == nullptr ? unknown : *found;
}

std::string choices() {
  std::vector<std::string> names;
  for (const Backend* one : all()) names.push_back(one->name);
  std::ranges::sort(names);
  names.insert(names.begin(), "auto");
  return joined(std::move(names));
}

const Language* find_language(std::string_view name) {
  for (const Backend* one : all()) {
    if (const Language* found = one->language(name); found != nullptr) return found;
  }
  return nullptr;
}

const Backend& add(Backend backend) {
  std::scoped_lock lock(added().mutex);
  return added().backends.emplace_back(std::move(backend));
}

}  // namespace planish::backend
