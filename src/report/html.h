#pragma once

#include <string>
#include <string_view>

namespace planish::report::html {

/// Text for element content and for attribute values in double quotes. Tasks, models and compilers wrote most of what
/// a page shows: everything goes through here or through script_json(). Control characters and bytes that are no UTF-8
/// become U+FFFD.
std::string escape(std::string_view text);

/// JSON text for a `<script type="application/json">` element: no `<`, `>`, `&` stays as it is, so that nothing in it
/// can end the element.
std::string script_json(std::string_view json);

}  // namespace planish::report::html
