#pragma once

#include <string_view>

namespace planish {

/// A host is this machine alone: an address from 127.0.0.0/8, ::1, or `localhost`. Names are not asked for:
/// `127.example.org` is somebody's.
bool is_loopback(std::string_view host);

/// The host of an address with a scheme, as `http://[::1]:8000/v1`, without port and brackets; of other texts, what
/// stands before the first of `:` and `/`.
std::string_view host_of(std::string_view url);

}  // namespace planish
