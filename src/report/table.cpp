#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "report/html.h"
#include "report/line_diff.h"
#include "report/page.h"
#include "report/svg.h"

namespace planish::report::page {
namespace {

/// Sources beyond this stay out of the page: it must open in any browser.
constexpr std::size_t most_source_bytes = 12U << 20U;

std::string cell(const std::string& shown, double value, bool there) {
  // Rows without the number sort last, whichever way.
  return there ? fmt::format("<td class=\"n\" data-v=\"{:.17g}\">{}</td>", value, html::escape(shown))
               : std::string("<td class=\"n\"></td>");
}

std::string text_cell(const std::string& shown) {
  return fmt::format("<td>{}</td>", html::escape(shown));
}

std::string genome_difference(const codegen::Genome& before, const codegen::Genome& after) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  for (const auto& [gene, value] : after) {
    const auto old = before.find(gene);
    if (old == before.end()) {
      add(fmt::format("{} {}", gene, value));
    } else if (old->second != value) {
      add(fmt::format("{} {} → {}", gene, old->second, value));
    }
  }
  for (const auto& [gene, value] : before) {
    if (!after.contains(gene)) add(fmt::format("{} dropped", gene));
  }
  return out.empty() ? "no gene" : out;
}

std::string code_of(const StoredCandidate& c) {
  std::string out = c.solution;
  if (!c.program) return out;
  for (const auto& kernel : c.program->kernels) out += kernel.source;
  return out;
}

std::string difference(const StoredCandidate& before, const StoredCandidate& after) {
  const std::string a = code_of(before), b = code_of(after);
  if (a.empty() || b.empty()) return {};
  const auto lines = line_diff(a, b);
  if (lines.empty()) return {};
  std::string out = "<details><summary>source</summary><pre class=\"diff\">";
  for (const DiffLine& line : lines) {
    const char* css = line.mark == '+' ? "added" : line.mark == '-' ? "gone" : line.mark == '@' ? "cut" : "same";
    out += fmt::format("<span class=\"{}\">{} {}</span>\n", css, line.mark == '@' ? "…" : std::string(1, line.mark),
                       html::escape(line.text));
  }
  return out + "</pre></details>";
}

std::string chain(const Report& report, const std::vector<std::size_t>& steps) {
  std::string out = "<ol class=\"lineage\">\n";
  const StoredCandidate* before = nullptr;
  for (const std::size_t i : steps) {
    const StoredCandidate& c = report.candidates[i].stored;
    const std::string ms = c.record.median_ms > 0 ? svg::number(c.record.median_ms) + " ms" : c.record.outcome;
    out += fmt::format("<li><a href=\"#c{0}\" data-pick=\"{0}\">#{0}</a> {1}", i, html::escape(ms));
    if (before == nullptr) {
      out += fmt::format(" <code>{}</code>", html::escape(c.record.genome));
    } else {
      if (c.record.median_ms > 0 && before->record.median_ms > 0)
        out += fmt::format(" ({:+.1f} %)", 100 * (c.record.median_ms / before->record.median_ms - 1));
      out += fmt::format(" <code>{}</code>", html::escape(genome_difference(before->genome, c.genome)));
    }
    if (!c.record.proposer.empty()) out += fmt::format(" <small>{}</small>", html::escape(c.record.proposer));
    if (before != nullptr) out += difference(*before, c);
    out += "</li>\n";
    before = &c;
  }
  return out + "</ol>\n";
}

/// What the details say of it in numbers.
Json facts_of(const StoredCandidate& c) {
  Json out = Json::array();
  const auto add = [&out](const char* name, std::string value) { out.push_back({name, std::move(value)}); };
  const Evaluation& e = c.evaluation;
  add("region", c.record.region);
  add("outcome", fmt::format("{} ({}, {})", c.record.outcome, c.record.tier, c.record.level));
  if (c.record.median_ms > 0) {
    std::string time = fmt::format("{} ms", svg::number(c.record.median_ms));
    if (e.bench && e.bench->hi_ms > 0)
      time += fmt::format(" [{}, {}]", svg::number(e.bench->lo_ms), svg::number(e.bench->hi_ms));
    add("time", std::move(time));
    if (e.roofline && e.roofline->bound_ms > 0)
      add("roofline",
          fmt::format("{:.0f} % of the {} bound", 100 * e.roofline->bound_ms / c.record.median_ms, e.roofline->bound));
  }
  if (c.record.predicted_ms > 0) add("predicted", fmt::format("{} ms", svg::number(c.record.predicted_ms)));
  if (e.compile) {
    for (const KernelReport& kernel : e.compile->kernels) {
      if (kernel.registers > 0)
        add("kernel", fmt::format("{} registers, {} bytes spilled, {} bytes shared", kernel.registers,
                                  kernel.spill_bytes, kernel.shared_bytes));
    }
  }
  if (!c.record.proposer.empty()) add("proposed by", c.record.proposer);
  if (!c.record.genome.empty()) add("genome", c.record.genome);
  return out;
}

}  // namespace

std::string candidate_table(const Report& report) {
  std::string out =
      "<div class=\"scroll\"><table class=\"sortable\" "
      "id=\"candidates\"><thead><tr><th>#</th><th>region</th><th>outcome"
      "</th><th>tier</th><th>level</th><th>ms</th><th>± %</th><th>roofline %</th><th>registers</th><th>spilled</th>"
      "<th>shared</th><th>error</th><th>at s</th><th>issue</th><th>proposed "
      "by</th><th>genome</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const auto& [c, verdict] = report.candidates[i];
    const Evaluation& e = c.evaluation;
    const double ms = c.record.median_ms;
    out += fmt::format("<tr id=\"c{0}\" data-pick=\"{0}\" tabindex=\"0\" class=\"{1}\">", i, e.ok() ? "ok" : "failed");
    out += cell(fmt::format("{}", i), static_cast<double>(i), true);
    out +=
        text_cell(c.record.region) + text_cell(c.record.outcome) + text_cell(c.record.tier) + text_cell(c.record.level);
    out += cell(svg::number(ms), ms, ms > 0);
    const double spread = e.bench && ms > 0 ? 50 * (e.bench->hi_ms - e.bench->lo_ms) / ms : 0;
    out += cell(fmt::format("{:.1f}", spread), spread, e.bench && e.bench->hi_ms > 0);
    const bool placed = e.roofline && ms > 0 && e.roofline->bound_ms > 0;
    const double fraction = placed ? 100 * e.roofline->bound_ms / ms : 0;
    out += cell(fmt::format("{:.0f}", fraction), fraction, placed);
    std::int64_t registers = 0, spilled = 0, shared = 0;
    const bool compiled = e.compile && !e.compile->kernels.empty();
    if (compiled) {
      for (const KernelReport& kernel : e.compile->kernels) {
        registers = std::max(registers, kernel.registers);
        spilled += kernel.spill_bytes;
        shared = std::max(shared, kernel.shared_bytes);
      }
    }
    out += cell(fmt::format("{}", registers), static_cast<double>(registers), registers > 0);
    out += cell(fmt::format("{}", spilled), static_cast<double>(spilled), compiled && registers > 0);
    out += cell(fmt::format("{}", shared), static_cast<double>(shared), compiled && registers > 0);
    double error = -1;
    if (e.test) {
      for (const TestCase& test : e.test->cases) {
        for (const OutputErrors& output : test.outputs) error = std::max(error, output.fro);
      }
    }
    out += cell(fmt::format("{:.2g}", error), error, error >= 0);
    out += cell(fmt::format("{:.1f}", c.record.at_seconds), c.record.at_seconds, true);
    out += text_cell(verdict.issue) + text_cell(c.record.proposer);
    out += fmt::format("<td><code>{}</code></td></tr>\n",
                       html::escape(c.record.genome.empty() ? "(aten steps)" : c.record.genome));
  }
  return out + "</tbody></table></div>\n";
}

std::string candidate_json(const Report& report) {
  Json sources = Json::array(), candidates = Json::array();
  std::map<std::string, int> known;
  // The fastest first: should there be too much source, theirs stays.
  std::vector<std::size_t> order(report.candidates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const double ms = report.candidates[i].stored.record.median_ms;
    return ms > 0 ? ms : 1e300;
  });
  std::size_t bytes = 0;
  std::vector<int> source(order.size(), -1);
  for (const std::size_t i : order) {
    const std::string text = code_of(report.candidates[i].stored);
    if (text.empty()) continue;
    const auto [at, added] = known.try_emplace(text, static_cast<int>(sources.size()));
    if (added) {
      if (bytes + text.size() > most_source_bytes) {
        known.erase(at);
        continue;
      }
      bytes += text.size();
      sources.push_back(text);
    }
    source[i] = at->second;
  }
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const auto& [c, verdict] = report.candidates[i];
    Json tests = Json::array();
    if (c.evaluation.test) {
      for (const TestCase& test : c.evaluation.test->cases) {
        double fro = 0, gate = 0, eager = 0;
        for (const OutputErrors& output : test.outputs) {
          if (output.fro < fro) continue;
          fro = output.fro;
          gate = output.gate_fro;
          eager = output.eager_fro;
        }
        tests.push_back({{"regime", test.regime},
                         {"seed", fmt::format("{}", test.seed)},
                         {"ok", test.ok},
                         {"problem", test.problem},
                         {"fro", fmt::format("{:.3g}", fro)},
                         {"gate", fmt::format("{:.3g}", gate)},
                         {"eager", fmt::format("{:.3g}", eager)}});
      }
    }
    candidates.push_back({{"program", c.record.program},
                          {"parent", c.record.parent},
                          {"message", c.evaluation.message},
                          {"facts", facts_of(c)},
                          {"verdict", judge::to_text(verdict)},
                          {"log", c.evaluation.compile ? c.evaluation.compile->log.substr(0, 4000) : ""},
                          {"tests", std::move(tests)},
                          {"source", source[i]}});
  }
  return dump_json({{"sources", std::move(sources)}, {"candidates", std::move(candidates)}});
}

std::string lineage_section(const Report& report, const Report::Region& region) {
  const auto parents = lineage(report, region.id);
  if (parents.empty()) return "<p>Nothing passed.</p>\n";
  const auto& first = report.candidates[parents.front()].stored.record;
  if (parents.size() == 1 && !first.proposer.empty())
    return fmt::format(
               "<p>The fastest was made from no other (<code>{}</code>). What was the fastest so far, in order:</p>\n",
               html::escape(first.proposer)) +
           chain(report, improvements(report, region.id));
  if (parents.size() > 1) return "<p>From its first ancestor to the fastest candidate:</p>\n" + chain(report, parents);
  return "<p>This run did not record parents. What was the fastest so far, in order, with what differs from the one "
         "before:</p>\n" +
         chain(report, improvements(report, region.id));
}

}  // namespace planish::report::page
