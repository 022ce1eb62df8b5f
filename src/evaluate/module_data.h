#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/oracle.h"

namespace planish {

/// A module's arguments go by name (in0…, out0…); the index only has to tell them apart.
std::vector<worker::Binding> module_bindings(const worker::DataSet& set);

/// Frees a data set at the end of a scope.
class Drop {
 public:
  Drop(worker::Oracle& oracle, std::string data, double limit)
      : oracle_(oracle), data_(std::move(data)), limit_(limit) {}
  ~Drop() {
    if (oracle_.alive()) (void)oracle_.drop(data_, limit_);
  }
  Drop(const Drop&) = delete;
  Drop& operator=(const Drop&) = delete;

 private:
  worker::Oracle& oracle_;
  std::string data_;
  double limit_;
};

}  // namespace planish
