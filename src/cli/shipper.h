#pragma once

#include <memory>

#include "cli/plan.h"

namespace planish::cli {

/// The folder form of src/ship.
std::unique_ptr<Shipper> make_shipper();

}  // namespace planish::cli
