#pragma once

#include <string>
#include <string_view>

namespace planish {

/// Variables of this process's environment that no child gets, whatever it is: the keys of model servers. Names are
/// added when a configuration names them and stay until the process ends. Thread-safe.
void hide_from_children(std::string name);
bool hidden_from_children(std::string_view name);

}  // namespace planish
