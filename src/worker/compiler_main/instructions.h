#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace planish::worker {

/// How often each kind of instruction stands in compiled code (docs/formats/evaluation.md lists the kinds). Kinds that
/// do not occur are absent. An instruction in a loop counts once: this says what a kernel is made of, not what it does.
std::map<std::string, std::int64_t> count_ptx(std::string_view ptx);
/// GNU assembly of an x86-64 kernel, as g++ -S writes it.
std::map<std::string, std::int64_t> count_assembly(std::string_view assembly);
/// Bytes of the largest stack frame in the same.
std::int64_t largest_frame(std::string_view assembly);

}  // namespace planish::worker
