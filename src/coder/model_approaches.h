#pragma once

#include <memory>

#include "coder/model_coder.h"
#include "coder/model_writer.h"

// Private to src/coder: one writer an approach.
namespace planish::coder {

/// One conversation, or independent answers. `turns`: 0 for as many as there are.
std::unique_ptr<Writer> conversation_writer(std::shared_ptr<ModelPool> pool, int number, int turns);
std::unique_ptr<Writer> samples_writer(std::shared_ptr<ModelPool> pool, int number, int turns);
std::unique_ptr<Writer> ideas_writer(std::shared_ptr<ModelPool> pool, int number, int turns);
std::unique_ptr<Writer> roles_writer(std::shared_ptr<ModelPool> pool, int number, int turns);

}  // namespace planish::coder
