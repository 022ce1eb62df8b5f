#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/oracle.h"
#include "worker/runner.h"

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

/// Takes it from a runner at the end of a scope: what is mapped there stays the device's when the oracle has freed it.
class Unbind {
 public:
  Unbind(worker::Runner& runner, std::string data, double limit)
      : runner_(runner), data_(std::move(data)), limit_(limit) {}
  ~Unbind() {
    if (runner_.alive()) (void)runner_.unbind(data_, limit_);
  }
  Unbind(const Unbind&) = delete;
  Unbind& operator=(const Unbind&) = delete;

 private:
  worker::Runner& runner_;
  std::string data_;
  double limit_;
};

}  // namespace planish
