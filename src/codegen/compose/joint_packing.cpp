#include "codegen/compose/joint_packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "codegen/compose/parameters.h"

namespace planish::codegen {
namespace {

constexpr std::string_view begin_of_kernel = "// ---- kernel ----\n";
constexpr std::string_view kernel_head = "extern \"C\" __global__ void __launch_bounds__(";
constexpr std::string_view entry = "planish_kernel(";
/// As many as a launch may have, and as many texts as compile in about two seconds.
constexpr std::size_t most_args = 240, most_texts = 12;

/// What all texts of a group begin with; nothing where there is no kernel behind it.
std::optional<std::string_view> prelude_of(const Emitted& emitted) {
  const std::size_t at = emitted.source.find(begin_of_kernel);
  if (at == std::string::npos) return std::nullopt;
  return std::string_view(emitted.source).substr(0, at);
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// One text, as a function of its block.
struct Text {
  const std::string* source = nullptr;
  std::vector<Parameter> parameters;
  std::string function;              ///< its namespace
  std::vector<std::size_t> members;  ///< of the group
};

Result<Text> function_of(const Emitted& emitted, std::size_t number) {
  Text out{.source = &emitted.source, .parameters = {}, .function = {}, .members = {}};
  const std::size_t begin = emitted.source.find(begin_of_kernel);
  std::string body = begin == std::string::npos ? std::string() : emitted.source.substr(begin + begin_of_kernel.size());
  const std::size_t from = body.find(kernel_head), name = body.find(entry, from == std::string::npos ? 0 : from);
  const std::size_t close = name == std::string::npos ? name : body.find(") {", name);
  if (from == std::string::npos || close == std::string::npos)
    return fail("unsupported", "a packing's text has another form");
  out.parameters = parameters_of(std::string_view(body).substr(name + entry.size(), close - name - entry.size()));
  if (out.parameters.size() != emitted.args.size())
    return fail("unsupported", "a packing has other parameters than arguments");
  body.replace(from, name + entry.size() - from, "PL_DEVICE void pack(const int block, ");
  out.function = fmt::format("namespace pack{} {{\n{}}}\n", number, replaced(std::move(body), "blockIdx.x", "block"));
  return out;
}

/// Chooses a text's member by the block, and runs it.
std::string call(const Text& text, std::size_t number, std::span<const PackingStep> group,
                 const std::vector<std::size_t>& first_argument, std::int64_t& blocks) {
  const std::int64_t begin = blocks;
  std::string chosen;
  for (std::size_t i = 0; i < text.members.size(); ++i) {
    const std::size_t member = text.members[i];
    const std::int64_t from = blocks;
    blocks += group[member].emitted->grid[0];
    std::string sets = fmt::format("first = {};", from);
    for (std::size_t p = 0; p < text.parameters.size(); ++p)
      sets += fmt::format(" p{} = a{};", p, first_argument[member] + p);
    const bool last = i + 1 == text.members.size();
    chosen += fmt::format("{}{}{{ {} }}\n", i == 0 ? "    " : "    else ",
                          last ? "" : fmt::format("if (blockIdx.x < {}) ", blocks), sets);
  }
  std::string out = fmt::format("  if (blockIdx.x >= {} && blockIdx.x < {}) {{\n    int first;\n", begin, blocks);
  std::string arguments;
  for (std::size_t p = 0; p < text.parameters.size(); ++p) {
    out += fmt::format("    {} p{};\n", text.parameters[p].type, p);
    arguments += fmt::format(", p{}", p);
  }
  return out + chosen + fmt::format("    pack{}::pack(blockIdx.x - first{});\n    return;\n  }}\n", number, arguments);
}

}  // namespace

std::vector<std::vector<std::size_t>> packing_groups(std::span<const PackingStep> steps) {
  std::vector<std::vector<std::size_t>> groups;
  const auto fits = [&](const std::vector<std::size_t>& group, std::size_t next) {
    const Emitted& one = *steps[group.front()].emitted;
    const Emitted& other = *steps[next].emitted;
    if (one.block[0] != other.block[0] || one.cluster[0] != other.cluster[0] || one.flags != other.flags ||
        one.entry != other.entry || one.language != other.language || one.shared != 0 || other.shared != 0 ||
        !prelude_of(one) || prelude_of(one) != prelude_of(other))
      return false;
    std::size_t args = steps[next].args.size();
    std::vector<std::string_view> texts{other.source};
    for (const std::size_t member : group) {
      args += steps[member].args.size();
      const std::string_view text = steps[member].emitted->source;
      if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
    }
    return args <= most_args && texts.size() <= most_texts;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto found = std::ranges::find_if(groups, [&](const auto& group) { return fits(group, i); });
    if (found == groups.end())
      groups.push_back({i});
    else
      found->push_back(i);
  }
  return groups;
}

Result<JointPacking> joint_packing(std::span<const PackingStep> group) {
  std::vector<Text> texts;
  std::vector<std::size_t> first_argument;
  JointPacking out;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Emitted& one = *group[i].emitted;
    first_argument.push_back(out.launch.args.size());
    out.launch.args.insert(out.launch.args.end(), group[i].args.begin(), group[i].args.end());
    auto known = std::ranges::find_if(texts, [&](const Text& text) { return *text.source == one.source; });
    if (known == texts.end()) {
      PLANISH_TRY(auto text, function_of(one, texts.size()));
      known = texts.insert(texts.end(), std::move(text));
    }
    known->members.push_back(i);
  }
  const Emitted& any = *group.front().emitted;
  std::string& source = out.source.source;
  source = std::string(*prelude_of(any)) + std::string(begin_of_kernel);
  for (const Text& text : texts) source += text.function;
  std::string parameters, body;
  std::int64_t blocks = 0;
  std::vector<std::string> types(out.launch.args.size());
  for (std::size_t t = 0; t < texts.size(); ++t) {
    for (const std::size_t member : texts[t].members) {
      for (std::size_t p = 0; p < texts[t].parameters.size(); ++p)
        types[first_argument[member] + p] = texts[t].parameters[p].type;
    }
    body += call(texts[t], t, group, first_argument, blocks);
  }
  for (std::size_t a = 0; a < types.size(); ++a)
    parameters += fmt::format("{}{} __restrict__ a{}", a == 0 ? "" : ", ", types[a], a);
  source += fmt::format("{}{}) {}{}) {{\n{}}}\n", kernel_head, any.block[0], entry, parameters, body);
  out.source.language = any.language;
  out.source.entry = any.entry;
  out.source.flags = any.flags;
  out.launch.grid[0] = blocks;
  std::copy(std::begin(any.block), std::end(any.block), out.launch.block.begin());
  std::copy(std::begin(any.cluster), std::end(any.cluster), out.launch.cluster.begin());
  return out;
}

}  // namespace planish::codegen
