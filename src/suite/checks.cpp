#include "suite/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "suite/headline.h"
#include "suite/score.h"
#include "worker/printable.h"

namespace planish::suite {
namespace {

namespace fs = std::filesystem;

/// For an attribute or a text of XML 1.0, which cannot hold most control characters at all, bytes that are no UTF-8, or
/// U+FFFE and U+FFFF.
std::string xml_text(std::string_view raw) {
  const std::string text = worker::printable(raw);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::string_view rest = std::string_view(text).substr(i, 3);
    if (rest == "\xEF\xBF\xBE" || rest == "\xEF\xBF\xBF") {
      out += '?';
      i += 2;
      continue;
    }
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Escaped as what stands behind `::` of a workflow command; in a property `:` and `,` are separators too.
std::string command_text(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ',')))
      out += fmt::format("%{:02X}", c);
    else
      out += c;
  }
  return out;
}

std::string message_of(const Row& row) {
  std::string out = row.outcome == "refused" && !row.verdict.empty() ? row.verdict : row.kind;
  if (!row.message.empty()) out += (out.empty() ? "" : ": ") + row.message;
  if (!row.hint.empty()) out += fmt::format(" (hint: {})", row.hint);
  return out.empty() ? row.outcome : out;
}

/// Relative where it lies below the current folder, as a repository's files are known. What came on stdin ("-") has no
/// file, and is shown at its task.
std::string file_of(const Row& row) {
  const fs::path file = row.solution.empty() || row.solution == "-" ? row.path : row.solution;
  if (file.empty() || file == "-") return {};
  std::error_code failed;
  const fs::path here = fs::current_path(failed);
  const fs::path relative = failed ? fs::path() : fs::absolute(file, failed).lexically_relative(here);
  return relative.empty() || relative.string().starts_with("..") ? file.string() : relative.string();
}

std::string case_xml(const Row& row, const std::string& suite) {
  const std::string head = fmt::format("    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" time=\"{:.3f}\">",
                                       xml_text(suite), xml_text(name_of(row)), xml_text(file_of(row)), row.seconds);
  const std::string why = xml_text(message_of(row));
  std::string body;
  if (row.outcome == "refused")
    body = fmt::format("<failure type=\"{}\" message=\"{}\"/>", xml_text(row.verdict), why);
  else if (is_bad(row))
    body = fmt::format("<error type=\"{}\" message=\"{}\"/>", xml_text(row.kind), why);
  else if (row.outcome == "unanswered" || row.outcome == "interrupted")
    body = fmt::format("<skipped message=\"{}\"/>", why);
  else
    body =
        fmt::format("<system-out>{}</system-out>", xml_text(row.headline ? headline_text(row.headline) : row.outcome));
  return fmt::format("{}{}</testcase>\n", head, body);
}

}  // namespace

bool is_bad(const Row& row) {
  return row.outcome == "refused" || row.outcome == "failed";
}

std::string junit_xml(const std::vector<Row>& rows, const std::string& suite) {
  const auto count = [&rows](auto... outcomes) {
    return std::ranges::count_if(rows, [=](const Row& row) { return ((row.outcome == outcomes) || ...); });
  };
  double seconds = 0;
  std::string cases;
  for (const Row& row : rows) {
    seconds += row.seconds;
    cases += case_xml(row, suite);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" "
      "errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n{}  </testsuite>\n</testsuites>\n",
      xml_text(suite), rows.size(), count("refused"), count("failed"), count("unanswered", "interrupted"), seconds,
      cases);
}

std::string github_annotations(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows) {
    if (!is_bad(row)) continue;
    const std::string file = file_of(row);
    out +=
        fmt::format("::error {}title={}::{}\n", file.empty() ? "" : fmt::format("file={},", command_text(file, true)),
                    command_text("planish: " + name_of(row), true), command_text(message_of(row), false));
  }
  return out;
}

}  // namespace planish::suite
