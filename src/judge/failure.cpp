#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>

#include "judge/aims.h"
#include "judge/parts.h"

/// Candidates of which no right or wrong output came: what the compiler, the loader or the runner refused.
namespace planish::judge {
namespace {

std::optional<std::int64_t> number_at(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

bool contains(std::string_view text, std::string_view part) {
  return std::ranges::search(text, part, {}, [](char c) {
           return std::tolower(static_cast<unsigned char>(c));
         }).begin() != text.end();
}

struct Diagnostic {
  std::string text;                  ///< what the compiler says, without the place
  std::optional<std::int64_t> line;  ///< of the source
};

/// The first error of a log: "kernel.cu(12): error: …" (NVRTC), "k.cpp:12:5: error: …" (GCC), "ptxas error : …".
std::optional<Diagnostic> first_error(std::string_view log) {
  while (!log.empty()) {
    const auto end = std::min(log.find('\n'), log.size());
    const auto line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    auto at = line.find("error");
    if (at == std::string_view::npos) continue;
    Diagnostic found;
    auto said = line.substr(at + 5);
    while (!said.empty() && (said.front() == ' ' || said.front() == ':')) said.remove_prefix(1);
    if (said.empty()) continue;
    found.text = said;
    const auto place = line.substr(0, at);
    if (const auto open = place.find('('); open != std::string_view::npos) {
      found.line = number_at(place.substr(open + 1));
    } else if (const auto colon = place.find(':');
               colon != std::string_view::npos && place.starts_with("ptxas") == false) {
      found.line = number_at(place.substr(colon + 1));
    }
    return found;
  }
  return std::nullopt;
}

struct Cause {
  std::string_view word;  ///< in the message, lower case
  const char* issue;
  std::optional<Aim> aim;
};

constexpr std::array compile_causes{
    Cause{"shared data", "shared_too_large", Aim::less_shared},
    Cause{"shared memory", "shared_too_large", Aim::less_shared},
    Cause{"too many resources", "registers_too_many", Aim::fewer_registers},
    Cause{"too many registers", "registers_too_many", Aim::fewer_registers},
    Cause{"undefined", "undefined_name", std::nullopt},
    Cause{"not declared", "undefined_name", std::nullopt},
    Cause{"expected", "syntax", std::nullopt},
};

void add_moves(Verdict& verdict, Aim aim, double chance, const Question& question) {
  verdict.moves = moves_for(aim, chance, question.genome, question.genes);
}

}  // namespace

Verdict judge_compile_error(const Question& question) {
  const Evaluation& e = question.evaluation;
  Verdict out;
  out.kind = Kind::compile_error;
  const std::string& log = e.compile && !e.compile->log.empty() ? e.compile->log : e.message;
  if (e.compile) out.evidence.push_back({"compile_seconds", e.compile->seconds, "s"});
  if (e.outcome == Outcome::compile_timeout) {
    out.issue = "compile_timeout";
    out.message = fmt::format("the compiler did not end in time: too much is unrolled ({})", e.message);
    add_moves(out, Aim::fewer_registers, 0.5, question);
    return out;
  }
  out.issue = e.outcome == Outcome::invalid_program ? "invalid_program"
              : e.outcome == Outcome::load_failed   ? "load_failed"
                                                    : "compile_error";
  std::string said = e.message;
  if (const auto error = first_error(log)) {
    said = error->text;
    if (error->line) {
      out.evidence.push_back({"source_line", static_cast<double>(*error->line), ""});
      said = fmt::format("line {}: {}", *error->line, said);
    }
  }
  for (const Cause& cause : compile_causes) {
    if (!contains(said, cause.word)) continue;
    out.issue = cause.issue;
    if (cause.aim) add_moves(out, *cause.aim, 0.8, question);
    break;
  }
  out.message = said;
  return out;
}

Verdict judge_fault(const Question& question) {
  const Evaluation& e = question.evaluation;
  Verdict out;
  out.kind = Kind::fault;
  out.message = e.message;
  out.issue = name(e.outcome);
  const auto evidence_of_case = [&] {
    if (!e.test || e.test->cases.empty()) return;
    out.evidence.push_back(
        {"cases_passed", static_cast<double>(std::ranges::count(e.test->cases, true, &TestCase::ok)), ""});
  };
  evidence_of_case();
  switch (e.outcome) {
    case Outcome::launch_failed: {
      // Registers × threads beyond the file, or more shared memory than a block may have.
      std::int64_t registers = 0, shared = 0;
      if (e.compile) {
        for (const KernelReport& kernel : e.compile->kernels) {
          registers = std::max(registers, kernel.registers);
          shared = std::max(shared, kernel.shared_bytes);
        }
      }
      std::int64_t threads = codegen::gene(question.genome, "threads", 0);
      for (const Launch& launch : question.launches) {
        threads = std::max(threads, launch.threads);
        shared = std::max(shared, shared + launch.dynamic_shared);
      }
      const bool on_gpu = !question.device.target->on_host;
      if (on_gpu && registers * threads > 65536) {
        out.issue = "registers_too_many";
        out.evidence.push_back({"registers_a_block", static_cast<double>(registers * threads), "registers"});
        add_moves(out, Aim::fewer_registers, 0.8, question);
      } else if (on_gpu && shared > question.device.shared_bytes) {
        out.issue = "shared_too_large";
        out.evidence.push_back({"shared_a_block", static_cast<double>(shared), "bytes"});
        add_moves(out, Aim::less_shared, 0.8, question);
      } else {
        add_moves(out, Aim::less_coordination, 0.3, question);
      }
      return out;
    }
    case Outcome::guard_overwritten:
    case Outcome::out_of_bounds:
    case Outcome::illegal_address:
    case Outcome::crash:
      out.message = fmt::format("memory beyond the data is touched: {}", e.message);
      add_moves(out, Aim::inside_bounds, 0.6, question);
      return out;
    case Outcome::hang:
      out.message = fmt::format("threads wait for what never comes: {}", e.message);
      add_moves(out, Aim::less_coordination, 0.6, question);
      return out;
    case Outcome::out_of_memory:
      add_moves(out, Aim::less_traffic, 0.3, question);
      return out;
    default:
      return out;
  }
}

}  // namespace planish::judge
