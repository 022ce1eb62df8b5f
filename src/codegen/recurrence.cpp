#include "codegen/recurrence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>

namespace planish::codegen {
namespace {

std::string text(const Recurrence::Operand& operand) {
  if (operand.input < 0) return "none";
  return fmt::format("in{} + {} by [{}]", operand.input, operand.offset, fmt::join(operand.strides, ", "));
}

}  // namespace

std::string text(const Recurrence& network) {
  constexpr std::array<std::string_view, 4> names{"lstm", "gru", "tanh", "relu"};
  std::string out = fmt::format("{}: {} steps, batch {}, width {}, hidden {}, {} layers, {} directions\n",
                                names[static_cast<std::size_t>(network.cell)], network.steps, network.batch,
                                network.width, network.hidden, network.layers, network.directions);
  out += fmt::format("x = {}; h0 = {}; c0 = {}\n", text(network.x), text(network.h0), text(network.c0));
  for (const Recurrence::Weights& w : network.weights)
    out +=
        fmt::format("weights {}; {}; {}; {}\n", text(w.input), text(w.hidden), text(w.input_bias), text(w.hidden_bias));
  const std::array<std::pair<std::string_view, const Recurrence::Result*>, 3> results{
      {{"all", &network.all}, {"last h", &network.last_h}, {"last c", &network.last_c}}};
  for (const auto& [name, result] : results) {
    if (result->output >= 0)
      out += fmt::format("{} -> out{} by [{}]\n", name, result->output, fmt::join(result->strides, ", "));
  }
  return out;
}

}  // namespace planish::codegen
