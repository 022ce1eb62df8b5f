#pragma once

#include <string_view>

/// The fixed texts of a step kernel (step_kernel.h). Private to codegen/recurrence.
namespace planish::codegen::recurrence {

/// What the body says to the machine: shared memory of a block and of its cluster, barriers, copies. Needs the constant
/// SUMMING, the threads that sum. Tests put another in its place.
std::string_view step_machine();
/// Functions of the body.
std::string_view step_functions();
/// From the opening brace on. Needs the constants and pointers that step_kernel() puts before it.
std::string_view step_body();

}  // namespace planish::codegen::recurrence
