#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace planish {

/// Takes a variable out of this process's environment for good: no child gets it, whatever it is started by, and who
/// reads /proc/PID/environ of this process does not see it. For the keys of model servers; called when a configuration
/// names them, before there are threads that read the environment. Names stay hidden until the process ends, also where
/// they are not set.
void hide_from_children(const std::string& name);
bool hidden_from_children(std::string_view name);
/// What a hidden variable held when it was hidden. Thread-safe, as is the function above.
std::optional<std::string> hidden_value(std::string_view name);

}  // namespace planish
