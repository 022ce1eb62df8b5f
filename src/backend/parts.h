#pragma once

#include <memory>
#include <mutex>
#include <typeindex>
#include <utility>
#include <vector>

namespace planish::backend {

/// What folders above know of a target: one object of each kind. A kind is a class of such a folder. Thread-safe; what
/// was given stays where it is.
class Parts {
 public:
  Parts() : held_(std::make_shared<Held>()) {}

  /// The first that is given of a kind counts.
  template <class Part>
  void give(std::shared_ptr<const Part> part) const {
    std::scoped_lock lock(held_->mutex);
    if (look(typeid(Part)) == nullptr) held_->parts.emplace_back(typeid(Part), std::move(part));
  }
  /// Null where nobody gave one.
  template <class Part>
  const Part* get() const {
    std::scoped_lock lock(held_->mutex);
    return static_cast<const Part*>(look(typeid(Part)));
  }

 private:
  struct Held {
    std::mutex mutex;
    std::vector<std::pair<std::type_index, std::shared_ptr<const void>>> parts;  // a handful
  };
  const void* look(std::type_index kind) const {
    for (const auto& [known, part] : held_->parts) {
      if (known == kind) return part.get();
    }
    return nullptr;
  }
  std::shared_ptr<Held> held_;
};

}  // namespace planish::backend
