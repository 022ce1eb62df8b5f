#include <array>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

#include "codegen/contraction/plan.h"

namespace planish::codegen::contraction {
namespace {

using Number = std::pair<std::string_view, int TilePlan::*>;
constexpr std::array numbers{Number{"bm", &TilePlan::bm},
                             Number{"bn", &TilePlan::bn},
                             Number{"bk", &TilePlan::bk},
                             Number{"consumers", &TilePlan::consumers},
                             Number{"stages", &TilePlan::stages},
                             Number{"promote_k", &TilePlan::promote_k},
                             Number{"raster", &TilePlan::raster},
                             Number{"split_k", &TilePlan::split_k},
                             Number{"blocks", &TilePlan::blocks},
                             Number{"ping_pong", &TilePlan::ping_pong},
                             Number{"exchange", &TilePlan::exchange},
                             Number{"strips", &TilePlan::strips},
                             Number{"strip_chunks", &TilePlan::strip_chunks},
                             Number{"stationary", &TilePlan::stationary},
                             Number{"overlap", &TilePlan::overlap},
                             Number{"maps", &TilePlan::maps},
                             Number{"rounds", &TilePlan::rounds},
                             Number{"spin_limit", &TilePlan::spin_limit}};

constexpr std::array<std::string_view, 4> schemes{"plain", "single", "split", "joint"};
constexpr std::array<std::string_view, 5> load_modes{"packed", "along_k", "along_rows", "strips", "registers"};
constexpr std::array<std::string_view, 2> element_names{"f16", "bf16"};

template <typename E, std::size_t N>
bool choose(E& field, const std::array<std::string_view, N>& names, std::string_view value) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == value) {
      field = static_cast<E>(i);
      return true;
    }
  }
  return false;
}

bool set(TilePlan& plan, std::string_view name, std::string_view value) {
  if (name == "scheme") return choose(plan.scheme, schemes, value);
  if (name == "element") return choose(plan.element, element_names, value);
  if (name == "load_mode_a") return choose(plan.load_mode_a, load_modes, value);
  if (name == "load_mode_b") return choose(plan.load_mode_b, load_modes, value);
  for (const auto& [known, field] : numbers) {
    if (known != name) continue;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), plan.*field);
    return error == std::errc{} && end == value.data() + value.size();
  }
  return false;
}

}  // namespace

std::string to_text(const TilePlan& plan) {
  std::string text;
  for (const auto& [name, field] : numbers) text += std::string(name) + "=" + std::to_string(plan.*field) + " ";
  text += "scheme=" + std::string(schemes[static_cast<std::size_t>(plan.scheme)]);
  text += " element=" + std::string(element_names[static_cast<std::size_t>(plan.element)]);
  text += " load_mode_a=" + std::string(load_modes[static_cast<std::size_t>(plan.load_mode_a)]);
  text += " load_mode_b=" + std::string(load_modes[static_cast<std::size_t>(plan.load_mode_b)]);
  return text;
}

Result<TilePlan> from_text(const std::string& text) {
  TilePlan plan;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    if (equals == std::string::npos ||
        !set(plan, std::string_view(word).substr(0, equals), std::string_view(word).substr(equals + 1))) {
      return fail("bad_plan", "'" + word + "' is no field of a tile plan with a value that it takes",
                  "write fields as " + to_text(TilePlan{}));
    }
  }
  return plan;
}

}  // namespace planish::codegen::contraction
