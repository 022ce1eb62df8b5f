#pragma once

// Include from .cpp files only (it brings the JSON library).
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "ir/graph.h"

namespace planish::ir {

/// How references are spelled: a graph says `value`/`values`, a program `buffer`/`buffers`.
struct RefNames {
  const char* one;
  const char* many;
};
inline constexpr RefNames graph_refs{"value", "values"};
inline constexpr RefNames program_refs{"buffer", "buffers"};

/// A list of named arguments (docs/formats/graph.md, nodes). Every id must lie in [0, id_limit). Errors have `kind` and
/// name `where`.
Result<std::vector<Arg>> parse_args(const Json& json, const RefNames& refs, int id_limit, ErrorKind kind,
                                    const std::string& where);
/// The inverse of parse_args.
Json args_to_json(const std::vector<Arg>& args, const RefNames& refs);
/// `outs`: ids or null.
Result<std::vector<std::optional<int>>> parse_outs(const Json& json, int id_limit, ErrorKind kind,
                                                   const std::string& where);

/// "0x1.8p+1", "inf", "-inf", "nan": exact in both directions (C's %a, Python's float.hex and float.fromhex).
std::string float_to_hex(double value);
std::string float_to_hex(float value);
/// Null for anything else.
std::optional<double> float_from_hex(std::string_view text);

}  // namespace planish::ir
