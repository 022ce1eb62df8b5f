#include "base/hidden_environment.h"

#include <mutex>
#include <set>

namespace planish {
namespace {

struct HiddenNames {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
};

HiddenNames& hidden_names() {
  // Never destroyed: a child may be started while the process ends.
  static auto* kept = new HiddenNames;
  return *kept;
}

}  // namespace

void hide_from_children(std::string name) {
  HiddenNames& hidden = hidden_names();
  std::scoped_lock lock(hidden.mutex);
  hidden.names.insert(std::move(name));
}

bool hidden_from_children(std::string_view name) {
  HiddenNames& hidden = hidden_names();
  std::scoped_lock lock(hidden.mutex);
  return hidden.names.contains(name);
}

}  // namespace planish
