#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace planish {

/// The known word that was most likely meant: at most a third of its letters differ, a swap of two counting as one.
/// Empty where none comes near.
std::string closest(std::string_view word, const std::vector<std::string>& known);
/// "did you mean 'optimize'? " or nothing, to stand before a hint.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace planish
