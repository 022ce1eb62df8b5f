#include "base/hidden_environment.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace planish {
namespace {

struct HiddenVariables {
  std::mutex mutex;
  std::map<std::string, std::optional<std::string>, std::less<>> values;
};

HiddenVariables& hidden_variables() {
  // Never destroyed: a child may be started while the process ends.
  static auto* kept = new HiddenVariables;
  return *kept;
}

}  // namespace

void hide_from_children(const std::string& name) {
  HiddenVariables& hidden = hidden_variables();
  std::scoped_lock lock(hidden.mutex);
  auto& kept = hidden.values[name];
  char* value = std::getenv(name.c_str());
  if (value == nullptr) return;
  kept = value;
  // Where it lies is what /proc shows; taking it off the list alone would leave it there.
  std::fill_n(value, std::strlen(value), 'x');
  ::unsetenv(name.c_str());
}

bool hidden_from_children(std::string_view name) {
  HiddenVariables& hidden = hidden_variables();
  std::scoped_lock lock(hidden.mutex);
  return hidden.values.contains(name);
}

std::optional<std::string> hidden_value(std::string_view name) {
  HiddenVariables& hidden = hidden_variables();
  std::scoped_lock lock(hidden.mutex);
  const auto found = hidden.values.find(name);
  return found == hidden.values.end() ? std::nullopt : found->second;
}

}  // namespace planish
