#pragma once

#include <string>

#include "report/data.h"

namespace planish::report {

/// One HTML page that needs nothing else: styles, charts and a small script are in it, and its policy forbids it to
/// load anything. Everything that tasks, models and compilers wrote is escaped.
std::string report_page(const Report& report);

/// The parts that have a file of their own.
namespace page {
std::string style();   ///< contents of <style>
std::string script();  ///< contents of <script>

std::string progress_chart(const Report& report, const Report::Region& region);
std::string roofline_chart(const Report& report);
std::string baseline_chart(const Report& report);
std::string funnel_chart(const Report& report);
/// The archive's cells where the run has them, and the two genes that explain most of the time.
std::string archive_map(const Report& report, const Report::Region& region);
/// The best of each agent so far, or of each operator where the strategy has no agents.
std::string agent_chart(const Report& report, const Report::Region& region);
/// What the run's proposals were worth, by operator and by agent.
std::string learned_section(const Report& report);

std::string candidate_table(const Report& report);
/// For the details that a click shows: one JSON document.
std::string candidate_json(const Report& report);
std::string lineage_section(const Report& report, const Report::Region& region);
}  // namespace page

}  // namespace planish::report
