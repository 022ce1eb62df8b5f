#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace planish {

/// SHA-256 of the bytes, as 64 lower-case hex digits. Thread-safe.
std::string sha256_hex(std::string_view bytes);

/// A digest of bytes that come in pieces. One thread at a time.
class Digest {
 public:
  Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  ~Digest();
  void add(std::string_view bytes);
  /// The digest of all that was added; nothing may be added afterwards.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace planish
