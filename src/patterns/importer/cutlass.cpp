#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "patterns/importer/cxx.h"
#include "patterns/importer/import.h"
#include "patterns/importer/text_facts.h"

namespace planish::patterns {
namespace {

std::vector<std::string_view> folders_of(std::string_view name) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    out.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  if (!out.empty()) out.pop_back();
  return out;
}

bool has(const std::vector<std::string_view>& folders, std::string_view name) {
  return std::ranges::find(folders, name) != folders.end();
}

/// What a file of that place holds; empty for what is no knowledge of kernels (types, tests, tools).
std::string_view form_of(std::string_view name) {
  const auto folders = folders_of(name);
  const std::string_view base = name.substr(name.rfind('/') + 1);
  if (has(folders, "test") || has(folders, "tools") || has(folders, "detail")) return {};
  if (base.starts_with("dispatch_policy")) return "policy";
  const bool example = has(folders, "examples");
  const bool library = has(folders, "include");
  if (!example && !library) return {};
  // The innermost folder that says it.
  for (auto at = folders.rbegin(); at != folders.rend(); ++at) {
    if (*at == "collective" || *at == "builders") return "collective";
    if (*at == "kernel") return "kernel";
    if (*at == "device") return "device";
    if (*at == "threadblock") return "threadblock";
    if (*at == "warp") return "warp";
    if (*at == "thread") return "thread";
    if (*at == "fusion") return "epilogue";
    if (*at == "pipeline") return "pipeline";
    if (*at == "atom") return "atom";
    if (*at == "arch" && (base.starts_with("mma") || base.starts_with("copy"))) return "instruction";
    if (*at == "algorithm" && has(folders, "cute")) return "algorithm";
    if (*at == "reference") return {};
    if (*at == "examples") return "component";
  }
  return {};
}

/// "arch::Sm90" → 90, wherever the code says so.
void add_architectures(Facts& facts, std::string_view code) {
  for (std::size_t at = code.find("arch::Sm"); at != std::string_view::npos; at = code.find("arch::Sm", at + 8)) {
    std::size_t end = at + 8;
    while (end < code.size() && std::isdigit(static_cast<unsigned char>(code[end])) != 0) ++end;
    if (end > at + 8 && end < at + 12) add_fact(facts, "arch", code.substr(at + 8, end - at - 8));
  }
}

/// Element types that the declarations of an example name.
void add_elements(Facts& facts, std::string_view code) {
  struct Element {
    std::string_view text, dtype;
  };
  static constexpr std::array elements{Element{"cutlass::half_t", "f16"},
                                       Element{"cutlass::bfloat16_t", "bf16"},
                                       Element{"cutlass::tfloat32_t", "tf32"},
                                       Element{"cutlass::float_e4m3_t", "e4m3"},
                                       Element{"cutlass::float_e4m3_t", "fp8"},
                                       Element{"cutlass::float_e5m2_t", "e5m2"},
                                       Element{"cutlass::float_e5m2_t", "fp8"},
                                       Element{"cutlass::float_e2m1_t", "fp4"},
                                       Element{"nv_float4_t", "fp4"},
                                       Element{"mx_float8_t", "fp8"},
                                       Element{"mx_float6_t", "fp6"},
                                       Element{"mx_float4_t", "fp4"},
                                       Element{"cutlass::int4b_t", "s4"},
                                       Element{"int8_t", "s8"},
                                       Element{"cutlass::complex<float>", "c32"},
                                       Element{"cutlass::complex<double>", "c64"}};
  for (const Element& one : elements) {
    if (names(code, one.text)) add_fact(facts, "dtype", one.dtype);
  }
}

/// Identifiers of the code, as words to be found by.
std::string code_words(std::string_view code) {
  return std::string(code.substr(0, 60'000));
}

void add_example(const SourceFile& file, const std::string& text, const std::string& code, std::vector<Pattern>& into) {
  Pattern pattern;
  pattern.form = "example";
  const std::string_view base = std::string_view(file.name).substr(file.name.rfind('/') + 1);
  pattern.name = base.substr(0, base.rfind('.'));
  pattern.path = file.name;
  pattern.line = 1;
  const std::string comment = file_comment(text);
  pattern.summary = summary_of(comment);
  add_said(pattern.facts, file.name);
  add_said(pattern.facts, comment.substr(0, 300), {"operation", "variant", "direction", "schedule", "epilogue"});
  add_architectures(pattern.facts, code);
  add_elements(pattern.facts, code);
  add_fact(pattern.facts, "language", "cutlass");
  // The declarations of the kernel stand before main(); the testbed behind them is of less use.
  pattern.source = text.substr(0, 48'000);
  pattern.more_words = comment + " " + code_words(code).substr(0, 16'000);
  into.push_back(std::move(pattern));
}

/// The docstring of a Python example, without running it.
std::string docstring(const std::string& text) {
  for (const std::string_view mark : {"\"\"\"", "'''"}) {
    const std::size_t open = text.find(mark);
    if (open == std::string::npos || open > 6000) continue;
    const std::size_t end = text.find(mark, open + 3);
    if (end != std::string::npos) return text.substr(open + 3, std::min<std::size_t>(end - open - 3, 6000));
  }
  return {};
}

void add_python_example(const SourceFile& file, const std::string& text, std::vector<Pattern>& into) {
  if (text.find("@cute.kernel") == std::string::npos && text.find("cute.jit") == std::string::npos) return;
  Pattern pattern;
  pattern.form = "example";
  const std::string_view base = std::string_view(file.name).substr(file.name.rfind('/') + 1);
  pattern.name = base.substr(0, base.rfind('.'));
  pattern.path = file.name;
  pattern.line = 1;
  const std::string about = docstring(text);
  pattern.summary = summary_of(about);
  add_said(pattern.facts, file.name);
  add_fact(pattern.facts, "language", "cute_dsl");
  pattern.source = text.substr(0, 48'000);
  pattern.more_words = about + " " + text.substr(0, 16'000);
  into.push_back(std::move(pattern));
}

/// "MMA_64x8x16_F16" → "MMA_#x#x#_F#"
std::string without_numbers(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) out += c;
    if (digit && !out.ends_with('#')) out += '#';
  }
  return out;
}

bool is_detail(const Declaration& one) {
  return std::ranges::any_of(one.namespaces,
                             [](const std::string& name) { return name.find("detail") != std::string::npos; });
}

}  // namespace

void read_cutlass(const SourceFile& file, const std::string& text, std::vector<Pattern>& into) {
  const std::string_view form = form_of(file.name);
  if (form.empty()) return;
  if (file.name.ends_with(".py")) {
    if (has(folders_of(file.name), "examples")) add_python_example(file, text, into);
    return;
  }
  const std::string code = without_comments(text);
  const bool example = has(folders_of(file.name), "examples");
  if (example && (code.find("int main(") != std::string::npos || code.find("int\nmain(") != std::string::npos)) {
    add_example(file, text, code, into);
    return;
  }
  for (const Declaration& one : declarations(text)) {
    // Helpers stand in `detail`; so do whole tile schedulers.
    if (is_detail(one) && one.end - one.body < 1500) continue;
    const std::string_view body = std::string_view(code).substr(one.body, one.end - one.body);
    const bool hollow = std::ranges::all_of(
        body, [](char c) { return c == '{' || c == '}' || std::isspace(static_cast<unsigned char>(c)) != 0; });
    if (hollow && form != "policy") continue;
    // What reads a command line is an example's harness.
    if (example && (body.find("CommandLine") != std::string_view::npos || body.find("cout") != std::string_view::npos))
      continue;
    Pattern pattern;
    pattern.form = one.kernel ? "kernel" : form;
    pattern.name = one.name.substr(0, 400);
    pattern.path = file.name;
    pattern.line = static_cast<std::int64_t>(one.line);
    pattern.summary = summary_of(one.comment);
    add_said(pattern.facts, file.name + " " + pattern.name);
    add_said(pattern.facts, one.comment.substr(0, 300), {"operation", "variant", "direction"});
    add_architectures(pattern.facts, std::string_view(code).substr(one.begin, one.body - one.begin));
    add_fact(pattern.facts, "language", "cutlass");
    pattern.source = text.substr(one.begin, std::min<std::size_t>(one.end - one.begin, 48'000));
    pattern.more_words =
        one_line(std::string_view(code).substr(one.begin, std::min<std::size_t>(one.end - one.begin, 8'000)));
    // An instruction is there in a hundred shapes: one family.
    pattern.family = fmt::format("{} {}", file.name, form == "instruction" ? without_numbers(one.base) : one.base);
    into.push_back(std::move(pattern));
  }
}

}  // namespace planish::patterns
