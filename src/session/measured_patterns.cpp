#include "session/measured_patterns.h"

#include <string>

#include "patterns/own.h"

namespace planish::session {

Result<std::vector<patterns::Measured>> measured_patterns(const store::Store& store) {
  PLANISH_TRY(auto all, store.achievements());
  std::vector<patterns::Measured> out;
  for (const store::Store::Achievement& one : all) {
    for (const std::string& name : patterns::templates_of_anchor(one.pattern))
      out.push_back({name, one.device, one.kernels, one.right, one.tried, one.best_fraction});
  }
  return out;
}

}  // namespace planish::session
