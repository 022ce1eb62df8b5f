#include "evaluate/module_data.h"

namespace planish {

std::vector<worker::Binding> module_bindings(const worker::DataSet& set) {
  std::vector<worker::Binding> bindings;
  for (std::size_t i = 0; i < set.buffers.size(); ++i) bindings.push_back({static_cast<int>(i), &set.buffers[i]});
  return bindings;
}

}  // namespace planish
