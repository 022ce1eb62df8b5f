#pragma once

#include <variant>

#include "ir/graph.h"

namespace planish::ir {

/// Calls body with each value that an operator's arguments name, in order; as references where `args` may be changed.
template <typename Args, typename Body>
void each_value(Args& args, const Body& body) {
  for (auto& arg : args) {
    if (auto* ref = std::get_if<ValueRef>(&arg.data)) body(ref->id);
    if (auto* list = std::get_if<ValueList>(&arg.data)) {
      for (auto& id : list->ids) {
        if (id) body(*id);
      }
    }
  }
}

}  // namespace planish::ir
