#include "session/degenerate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace planish::session {
namespace {

bool is_input(const std::string& name) {
  return name.starts_with("input ");
}

bool takes_no_work(const std::string& name) {
  return name == "zeros" || name == "constant";
}

bool fails_in(const RegionReply& region, const std::string& name) {
  const bool tried = std::ranges::none_of(
      region.notes, [&](const Note& note) { return note.kind == "not_tried" && note.about == name; });
  return tried && std::ranges::find(region.degenerate, name) == region.degenerate.end();
}

}  // namespace

std::string degenerate_words(const std::vector<std::string>& would_pass) {
  const bool input = std::ranges::any_of(would_pass, is_input);
  const bool trivial = std::ranges::any_of(would_pass, takes_no_work);
  const char* advice = input ? "it gives back what it is given, so there is no work to save; is a part of it switched "
                               "off (a dropout in eval mode)?"
                       : trivial
                           ? "its results hardly depend on its data; give inputs and parameters with which they do"
                           : "on these data less precise results are as good; give inputs as they are in use, or name "
                             "the tolerance that "
                             "you need with --accuracy";
  return fmt::format("the task is degenerate: {} would pass as its output; {}", fmt::join(would_pass, ", "), advice);
}

bool is_lower_precision(const std::string& would_pass) {
  return !is_input(would_pass) && !takes_no_work(would_pass);
}

std::vector<std::string> unproven_by(const std::vector<std::string>& degenerate, bool shipped_by_us) {
  std::vector<std::string> out = degenerate;
  if (shipped_by_us) std::erase_if(out, is_lower_precision);
  return out;
}

std::vector<Note> settled_by_regions(std::vector<std::string>& degenerate, const std::vector<RegionReply>& regions) {
  std::vector<Note> notes;
  std::erase_if(degenerate, [&](const std::string& name) {
    const auto fails = [&](const RegionReply& region) { return fails_in(region, name); };
    if (regions.empty() || !is_lower_precision(name) || !std::ranges::all_of(regions, fails)) return false;
    notes.push_back(
        {.kind = "fails_in_regions",
         .about = name,
         .text = fmt::format("{} would pass as the whole task's output, which hides them; every region whose "
                             "kernels ship was judged at its own boundary, where they fail",
                             name)});
    return true;
  });
  return notes;
}

}  // namespace planish::session
