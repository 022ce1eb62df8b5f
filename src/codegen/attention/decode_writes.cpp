#include "codegen/attention/decode_writes.h"

#include <algorithm>
#include <span>
#include <vector>

#include "codegen/variables.h"

namespace planish::codegen {
namespace {

std::unexpected<Error> apart(const char* why) {
  return fail("unsupported", why);
}

/// Sets `variables` of a point to what the linear place `linear` says.
void decode_place(const ir::Space& space, std::span<const int> variables, std::int64_t linear,
                  std::vector<std::int64_t>& point) {
  for (std::size_t i = variables.size(); i-- > 0;) {
    const auto v = static_cast<std::size_t>(variables[i]);
    point[v] = linear % space.extents[v];
    linear /= space.extents[v];
  }
}

/// Units of both begin at the same elements, one after the other.
bool same_units(const Kernel& attention, const std::vector<int>& batch, const KeyRows& rows, const Kernel& scatter,
                const std::vector<int>& unit, const Output& output, std::int64_t units) {
  std::vector<std::int64_t> here(attention.space.extents.size()), there(scatter.space.extents.size());
  for (std::int64_t u = 0; u < units; ++u) {
    decode_place(attention.space, batch, u, here);
    decode_place(scatter.space, unit, u, there);
    if (rows.begin.evaluate(here) != output.index.evaluate(there)) return false;
  }
  return true;
}

bool is_key(const Output& output, const KeyRows& rows, const Decode& d) {
  return rows.stored == d.element && rows.together == 0 && output.dtype == d.element && output.args.size() == 1 &&
         output.arg_strides[0] == rows.stride && output.arg_limits[0] == d.length && output.where.empty() &&
         output.index.is_affine();
}

}  // namespace

Result<WrittenRows> written_rows(const Kernel& attention, const Decode& d, const Kernel& scatter, int keys,
                                 int values) {
  constexpr std::int64_t most_rows = 8, most_units = 1 << 16;
  const auto parts = attention_of(attention);
  if (!parts) return std::unexpected(parts.error());
  if (scatter.anchor != Anchor::scatter || scatter.outputs.size() != 2 || keys == values || d.units > most_units)
    return apart("another write than of keys and of values");
  if (std::ranges::any_of(scatter.nodes, gathers))
    return apart("writes of what lies at places known at run time alone");
  const auto reads = [&](const KeyRows& rows) {
    return std::ranges::count_if(attention.nodes,
                                 [&](const Node& node) { return node.op == Op::load && node.input == rows.input; });
  };
  if (reads(d.keys) != 1 || reads(d.values) != 1) return apart("a cache that is read as something else, too");
  const Output& key = scatter.outputs[static_cast<std::size_t>(keys)];
  const Output& value = scatter.outputs[static_cast<std::size_t>(values)];
  if (!is_key(key, d.keys, d) || !is_key(value, d.values, d)) return apart("writes that are no whole keys and values");
  WrittenRows out;
  out.keys = keys;
  out.values = values;
  for (int v = 0; v < static_cast<int>(scatter.space.extents.size()); ++v) {
    const std::int64_t of_key = key.index.coefficient_of(v), of_value = value.index.coefficient_of(v);
    if (of_key == 1 && of_value == 1 && out.along < 0 && scatter.space.extent(v) == d.features) {
      out.along = v;
    } else if (of_key == 0 && of_value == 0) {
      out.row.push_back(v);
      out.rows *= scatter.space.extent(v);
    } else {
      out.unit.push_back(v);
    }
  }
  if (out.along < 0 || d.features != d.columns) return apart("keys and values of different widths");
  if (out.rows > most_rows) return apart("too many keys at once");
  std::int64_t units = 1;
  for (const int v : out.unit) units *= scatter.space.extent(v);
  if (units != d.units || !same_units(attention, parts->scores.batch, d.keys, scatter, out.unit, key, units) ||
      !same_units(attention, parts->values.batch, d.values, scatter, out.unit, value, units))
    return apart("units that the write counts otherwise");
  const auto moves = variables_of(scatter);
  for (const Output& output : scatter.outputs)
    if (moves[static_cast<std::size_t>(output.args[0])][static_cast<std::size_t>(out.along)])
      return apart("elements of a key at several places");
  return out;
}

}  // namespace planish::codegen
