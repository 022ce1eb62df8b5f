#include "base/hash.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

namespace planish {

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  // Fails only when the library itself is broken: there is nothing sensible to go on with.
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1) std::abort();
  constexpr std::string_view hex = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (unsigned char byte : digest) {
    text.push_back(hex[byte >> 4U]);
    text.push_back(hex[byte & 15U]);
  }
  return text;
}

}  // namespace planish
