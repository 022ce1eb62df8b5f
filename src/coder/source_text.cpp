#include "coder/source_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "ir/args_json.h"

namespace planish::coder {
namespace {

using codegen::Emitted;
using Kind = Emitted::Argument::Kind;

constexpr std::size_t most_bytes = 1 << 20;
constexpr std::size_t most_launches = 256;
constexpr std::size_t most_scratch = 64;
constexpr std::int64_t most_scratch_bytes = std::int64_t{1} << 40;

/// One text that is compiled, with the name that launches call it by.
struct Unit {
  std::string name, language;
  std::vector<std::string> flags;
  std::string code;
  std::size_t line = 0;
};

/// A launch as written: `unit` is where its entry is.
struct Written {
  std::size_t unit = 0;
  Emitted launch;
};

// -- writing --

std::string_view mark(std::string_view language) {
  const backend::Language* known = backend::find_language(language);
  return known != nullptr && known->python ? "#@" : "//@";
}

std::string triple(const std::int64_t (&v)[3]) {
  if (v[1] == 1 && v[2] == 1) return fmt::format("{}", v[0]);
  return v[2] == 1 ? fmt::format("{},{}", v[0], v[1]) : fmt::format("{},{},{}", v[0], v[1], v[2]);
}

bool is_one(const std::int64_t (&v)[3]) {
  return v[0] == 1 && v[1] == 1 && v[2] == 1;
}

constexpr auto scalar_text = []<typename T>(T value) {
  if constexpr (std::is_same_v<T, std::int32_t>) return fmt::format("i32:{}", value);
  if constexpr (std::is_same_v<T, std::int64_t>) return fmt::format("i64:{}", value);
  if constexpr (std::is_same_v<T, float>) return fmt::format("f32:{}", ir::float_to_hex(value));
  if constexpr (std::is_same_v<T, double>) return fmt::format("f64:{}", ir::float_to_hex(value));
};

std::string argument_text(const Emitted::Argument& arg) {
  switch (arg.kind) {
    case Kind::input:
      return fmt::format("in{}", arg.index);
    case Kind::output:
      return fmt::format("out{}", arg.index);
    case Kind::scratch:
      return fmt::format("tmp{}", arg.index);
    case Kind::scalar:
      break;
  }
  return std::visit(scalar_text, arg.value);
}

std::string launch_text(const Emitted& launch, std::string_view unit) {
  std::string out = fmt::format("{} launch {}{}{}", mark(launch.language), unit, unit.empty() ? "" : ":", launch.entry);
  if (!is_one(launch.grid)) out += " grid=" + triple(launch.grid);
  if (!is_one(launch.block)) out += " block=" + triple(launch.block);
  if (!is_one(launch.cluster)) out += " cluster=" + triple(launch.cluster);
  if (launch.shared != 0) out += fmt::format(" shared={}", launch.shared);
  if (launch.cooperative) out += " cooperative";
  out += " args=";
  for (std::size_t i = 0; i < launch.args.size(); ++i) out += (i == 0 ? "" : ", ") + argument_text(launch.args[i]);
  return out + "\n";
}

/// Of a program's launch.
template <typename T>
Emitted::Argument argument_of(const T& value, const std::vector<Emitted::Argument>& buffers) {
  Emitted::Argument out{Kind::scalar, 0};
  if constexpr (std::is_same_v<T, program::BufferArg>) {
    return buffers[static_cast<std::size_t>(value.buffer)];
  } else if constexpr (std::is_same_v<T, program::I32Arg> || std::is_same_v<T, program::F32Arg>) {
    out.value = value.value;
  } else {
    out.value = value;
  }
  return out;
}

// -- reading --

std::unexpected<Error> refuse(std::size_t line, std::string what) {
  return fail("bad_source", fmt::format("line {}: {}", line, what), "docs/formats/source.md says what a source is");
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const auto at = text.find(separator);
    if (const auto word = trimmed(text.substr(0, at)); !word.empty() || separator == ',') out.push_back(word);
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> real(std::string_view text) {
  if (const auto exact = ir::float_from_hex(text)) return exact;
  return number<double>(text);
}

/// What follows `//@` or `#@`; nothing where the line is code.
std::optional<std::string_view> directive(std::string_view line) {
  line = trimmed(line);
  for (const std::string_view sign : {"//@", "#@"}) {
    if (line.starts_with(sign)) return trimmed(line.substr(sign.size()));
  }
  return std::nullopt;
}

std::optional<Emitted::Argument> argument(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Kind>, 3> buffers{
      {{"in", Kind::input}, {"out", Kind::output}, {"tmp", Kind::scratch}}};
  for (const auto& [prefix, kind] : buffers) {
    if (!text.starts_with(prefix)) continue;
    if (const auto index = number<int>(text.substr(prefix.size())); index && *index >= 0)
      return Emitted::Argument{kind, *index};
  }
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view type = text.substr(0, colon), value = text.substr(colon + 1);
  Emitted::Argument out{Kind::scalar, 0};
  const auto take = [&](const auto& read) {
    if (read) out.value = *read;
    return read ? std::optional(out) : std::nullopt;
  };
  if (type == "i32") return take(number<std::int32_t>(value));
  if (type == "i64") return take(number<std::int64_t>(value));
  const auto parsed = real(value);
  if (type == "f64") return take(parsed);
  if (type == "f32") return take(parsed ? std::optional(static_cast<float>(*parsed)) : std::nullopt);
  return std::nullopt;
}

bool read_triple(std::string_view text, std::int64_t (&out)[3]) {
  const auto parts = split(text, ',');
  if (parts.size() > 3) return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = number<std::int64_t>(parts[i]);
    if (!value || *value < 1) return false;
    out[i] = *value;
  }
  return true;
}

/// Nothing but lines that are comments, or empty.
bool is_remark(std::string_view code) {
  return std::ranges::all_of(split(code, '\n'), [](std::string_view line) {
    const std::string_view words = trimmed(line);
    return words.empty() || words.starts_with("//") || words == "#" || words.starts_with("# ");
  });
}

class Reader {
 public:
  explicit Reader(const backend::Backend& target) : target_(target) {}

  Result<Emitted> read(std::string_view text) {
    if (text.size() > most_bytes)
      return fail("bad_source", fmt::format("the source has {} bytes, {} may be", text.size(), most_bytes),
                  "a kernel needs no tables of this size: compute them, or take them as inputs");
    if (text.contains('\0')) return fail("bad_source", "the source holds a zero byte", "write plain text");
    for (std::size_t line = 1; !text.empty(); ++line) {
      const auto end = text.find('\n');
      PLANISH_CHECK(take(text.substr(0, end), line));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return finish();
  }

 private:
  Status take(std::string_view line, std::size_t number) {
    const auto words = directive(line);
    if (!words) {
      if (units_.empty() && trimmed(line).empty()) return {};
      if (units_.empty()) units_.push_back({"", target_.languages.front().name, {}, "", number});
      units_.back().code.append(line).push_back('\n');
      return {};
    }
    const std::string_view word = words->substr(0, words->find(' '));
    const std::string_view rest = trimmed(words->substr(word.size()));
    if (word == "kernel") return kernel(rest, number);
    if (word == "scratch") return scratch(rest, number);
    if (word == "launch") return launch(rest, number);
    if (word == "planish.source/1") return {};
    return refuse(number, fmt::format("`{}` is no directive: there are kernel, scratch and launch", word));
  }

  Status kernel(std::string_view text, std::size_t line) {
    Unit unit;
    unit.line = line;
    const std::string_view named = text.substr(0, text.find(' '));
    const backend::Language* language = target_.language(named);
    if (language == nullptr)
      return refuse(line, fmt::format("language `{}` does not run here: {}", named, target_.language_names()));
    for (const std::string_view word : split(text, ' ')) {
      if (unit.language.empty()) {
        unit.language = word;
      } else if (word.starts_with("name=")) {
        unit.name = word.substr(5);
      } else {
        if (!language->allows(word))
          return refuse(line, fmt::format("flag `{}` is not allowed for {}", word, unit.language));
        unit.flags.emplace_back(word);
      }
    }
    // Words about the whole, above the first kernel.
    if (units_.size() == 1 && launches_.empty() && is_remark(units_.front().code)) units_.clear();
    const bool taken = std::ranges::any_of(units_, [&](const Unit& u) { return u.name == unit.name; });
    if (taken) return refuse(line, "of several kernels each needs a name of its own: `kernel LANGUAGE name=NAME`");
    units_.push_back(std::move(unit));
    return {};
  }

  Status scratch(std::string_view text, std::size_t line) {
    const auto words = split(text, ' ');
    const auto bytes = words.empty() ? std::nullopt : number<std::int64_t>(words[0]);
    const bool zeroed = words.size() == 2 && words[1] == "zeroed";
    if (!bytes || (words.size() != 1 && !zeroed)) return refuse(line, "scratch takes `BYTES` or `BYTES zeroed`");
    if (*bytes < 1 || *bytes > most_scratch_bytes || scratch_.size() >= most_scratch)
      return refuse(line, fmt::format("scratch is at most {} buffers of 1 to 2^40 bytes", most_scratch));
    if (zeroed) zeroed_.push_back(static_cast<int>(scratch_.size()));
    scratch_.push_back(*bytes);
    return {};
  }

  Status launch(std::string_view text, std::size_t line) {
    if (units_.empty()) return refuse(line, "a launch stands after the kernel that it launches");
    if (launches_.size() >= most_launches) return refuse(line, fmt::format("more than {} launches", most_launches));
    Written out{units_.size() - 1, {}};
    const auto args = text.find("args=");
    for (const std::string_view word : split(text.substr(0, args), ' ')) {
      if (out.launch.entry.empty()) {
        PLANISH_CHECK(entry(word, out, line));
        continue;
      }
      const auto equals = word.find('=');
      const std::string_view name = word.substr(0, equals);
      const std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
      bool ok = false;
      if (name == "grid") ok = read_triple(value, out.launch.grid);
      if (name == "block") ok = has_block_ = read_triple(value, out.launch.block);
      if (name == "cluster") ok = read_triple(value, out.launch.cluster);
      if (name == "cooperative") ok = out.launch.cooperative = value.empty();
      if (name == "shared") {
        const auto bytes = number<std::int64_t>(value);
        ok = bytes && *bytes >= 0;
        out.launch.shared = bytes.value_or(0);
      }
      if (!ok) return refuse(line, fmt::format("`{}` is nothing that a launch takes", word));
    }
    if (out.launch.entry.empty()) return refuse(line, "a launch names the function: `launch ENTRY grid=… args=…`");
    if (args == std::string_view::npos) return refuse(line, "a launch says what it passes: `args=in0, out0`");
    const Unit& unit = units_[out.unit];
    if (const auto threads = target_.language(unit.language)->threads;
        threads != nullptr && !std::exchange(has_block_, false))
      out.launch.block[0] = threads(unit.flags);
    has_block_ = false;
    for (const std::string_view word : split(text.substr(args + 5), ',')) {
      const auto arg = argument(word);
      if (!arg)
        return refuse(line,
                      fmt::format("`{}` is no argument: in0, out0, tmp0, i32:1, i64:1, f32:0.5 or f64:0.5", word));
      if (arg->kind == Kind::scratch && static_cast<std::size_t>(arg->index) >= scratch_.size())
        return refuse(line, fmt::format("{} is not declared before: `scratch BYTES`", word));
      out.launch.args.push_back(*arg);
    }
    launches_.push_back(std::move(out));
    return {};
  }

  /// `ENTRY` of the latest kernel, or `NAME:ENTRY`.
  Status entry(std::string_view word, Written& out, std::size_t line) const {
    const auto colon = word.find(':');
    out.launch.entry = word;
    if (colon == std::string_view::npos) return {};
    const auto unit = std::ranges::find(units_, word.substr(0, colon), &Unit::name);
    if (unit == units_.end()) return refuse(line, fmt::format("no kernel is named `{}`", word.substr(0, colon)));
    out.unit = static_cast<std::size_t>(unit - units_.begin());
    out.launch.entry = word.substr(colon + 1);
    return {};
  }

  Result<Emitted> finish() {
    if (launches_.empty())
      return fail("bad_source", "the source launches nothing",
                  "end it with a line such as `//@ launch my_kernel grid=128 block=256 args=in0, out0`");
    for (const Unit& unit : units_) {
      if (unit.code.find_first_not_of(" \t\r\n") == std::string::npos)
        return refuse(unit.line, "the kernel has no code");
    }
    Emitted out;
    for (Written& written : launches_) {
      Unit& unit = units_[written.unit];
      written.launch.language = unit.language;
      written.launch.flags = unit.flags;
      written.launch.source = unit.code;
      if (&written == &launches_.front()) {
        out = std::move(written.launch);
      } else {
        out.after.push_back(std::move(written.launch));
      }
    }
    out.scratch_bytes = std::move(scratch_);
    out.zeroed = std::move(zeroed_);
    return out;
  }

  const backend::Backend& target_;
  std::vector<Unit> units_;
  std::vector<Written> launches_;
  std::vector<std::int64_t> scratch_;
  std::vector<int> zeroed_;
  bool has_block_ = false;  ///< of the launch that is read
};

}  // namespace

std::string source_text(const Emitted& emitted) {
  std::vector<const Emitted*> launches{&emitted};
  for (const Emitted& next : emitted.after) launches.push_back(&next);
  std::vector<const Emitted*> units;
  std::vector<std::size_t> unit_of;
  for (const Emitted* launch : launches) {
    const auto same = std::ranges::find_if(units, [&](const Emitted* u) {
      return u->language == launch->language && u->source == launch->source && u->flags == launch->flags;
    });
    unit_of.push_back(static_cast<std::size_t>(same - units.begin()));
    if (same == units.end()) units.push_back(launch);
  }
  const bool one = units.size() == 1;
  std::string out;
  for (std::size_t u = 0; u < units.size(); ++u) {
    out += fmt::format("{} kernel {}", mark(units[u]->language), units[u]->language);
    if (!one) out += fmt::format(" name=k{}", u);
    for (const std::string& flag : units[u]->flags) out += " " + flag;
    out += "\n" + units[u]->source;
    if (!out.ends_with('\n')) out += "\n";
  }
  for (std::size_t s = 0; s < emitted.scratch_bytes.size(); ++s) {
    const bool zeroed = std::ranges::find(emitted.zeroed, static_cast<int>(s)) != emitted.zeroed.end();
    out += fmt::format("{} scratch {}{}\n", mark(units.back()->language), emitted.scratch_bytes[s],
                       zeroed ? " zeroed" : "");
  }
  for (std::size_t l = 0; l < launches.size(); ++l)
    out += launch_text(*launches[l], one ? std::string() : fmt::format("k{}", unit_of[l]));
  return out;
}

std::optional<std::string> source_text(const program::Program& program) {
  Emitted out;
  std::vector<Emitted> launches;
  std::vector<Emitted::Argument> buffers;
  for (const program::Buffer& buffer : program.buffers) {
    Emitted::Argument& as = buffers.emplace_back();
    if (buffer.role == program::Role::input) as = {Kind::input, buffer.source.index};
    if (buffer.role != program::Role::temp) continue;
    std::int64_t bytes = 1;
    for (const std::int64_t size : buffer.shape) bytes *= size;
    as = {Kind::scratch, static_cast<int>(out.scratch_bytes.size())};
    out.scratch_bytes.push_back(bytes);
  }
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    if (program.outputs[o].buffer < 0) return std::nullopt;
    buffers[static_cast<std::size_t>(program.outputs[o].buffer)] = {Kind::output, static_cast<int>(o)};
  }
  for (const program::Step& step : program.steps) {
    if (const auto* set = std::get_if<program::Set>(&step); set != nullptr && launches.empty() && set->value == 0) {
      out.zeroed.push_back(buffers[static_cast<std::size_t>(set->buffer)].index);
      continue;
    }
    const auto* launch = std::get_if<program::Launch>(&step);
    if (launch == nullptr) return std::nullopt;
    const auto& kernel = program.kernels[static_cast<std::size_t>(launch->kernel)];
    Emitted& e = launches.emplace_back();
    e.language = kernel.language;
    e.source = kernel.source;
    e.entry = kernel.entry;
    e.flags = kernel.flags;
    std::ranges::copy(launch->grid, std::begin(e.grid));
    std::ranges::copy(launch->block, std::begin(e.block));
    std::ranges::copy(launch->cluster, std::begin(e.cluster));
    e.shared = launch->shared;
    e.cooperative = launch->cooperative;
    for (const program::LaunchArg& arg : launch->args)
      e.args.push_back(std::visit([&](const auto& value) { return argument_of(value, buffers); }, arg));
  }
  if (launches.empty()) return std::nullopt;
  launches.front().scratch_bytes = std::move(out.scratch_bytes);
  launches.front().zeroed = std::move(out.zeroed);
  out = std::move(launches.front());
  out.after.assign(std::make_move_iterator(launches.begin() + 1), std::make_move_iterator(launches.end()));
  return source_text(out);
}

Result<Emitted> parse_source_text(std::string_view text, const backend::Backend& target) {
  return Reader(target).read(text);
}

}  // namespace planish::coder
