#include "evaluate/results_of.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

namespace planish {
namespace {

/// An output buffer, mapped for writing while this lives.
class Mapped {
 public:
  static Result<Mapped> of(const worker::SharedBuffer& buffer) {
    const auto bytes = static_cast<std::size_t>(buffer.map_bytes);
    void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.fd.get(), 0);
    if (base == MAP_FAILED)
      return fail("infrastructure", fmt::format("{} cannot be mapped: {}", buffer.name, std::strerror(errno)));
    return Mapped(static_cast<std::byte*>(base), bytes, buffer.offset);
  }
  Mapped(Mapped&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_), offset_(other.offset_) {}
  Mapped& operator=(Mapped&&) = delete;
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }
  std::byte* data() const { return base_ + offset_; }

 private:
  Mapped(std::byte* base, std::size_t bytes, std::int64_t offset) : base_(base), bytes_(bytes), offset_(offset) {}
  std::byte* base_;
  std::size_t bytes_;
  std::int64_t offset_;
};

struct Layout {
  std::uint64_t address = 0;
  std::vector<std::int64_t> strides;
};

std::optional<Layout> layout_of(const std::string& word, std::size_t dims) {
  Layout out;
  const char *at = word.data(), *const end = at + word.size();
  const auto address = std::from_chars(at, end, out.address);
  if (address.ec != std::errc() || address.ptr == end || *address.ptr != ':') return std::nullopt;
  for (at = address.ptr + 1; at < end; ++at) {
    std::int64_t stride = 0;
    const auto [next, code] = std::from_chars(at, end, stride);
    if (code != std::errc() || stride < 0 || stride > (std::int64_t{1} << 40)) return std::nullopt;
    out.strides.push_back(stride);
    at = next;
  }
  if (out.strides.size() != dims) return std::nullopt;
  return out;
}

/// From the first element to the last, in elements; what is beyond all memory counts as `endless`.
std::int64_t extent(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  constexpr std::int64_t endless = std::int64_t{1} << 50;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (strides[d] > 0 && shape[d] - 1 > (endless - last) / strides[d]) return endless;
    last += (shape[d] - 1) * strides[d];
  }
  return last + 1;
}

/// Whether both lay elements at the same places, and leave none between them out.
bool same_and_dense(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& a,
                    const std::vector<std::int64_t>& b) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && a[d] != b[d]) return false;
    elements *= shape[d];
  }
  return extent(shape, a) == elements;
}

Status read_memory(pid_t process, std::uint64_t address, std::span<std::byte> into) {
  constexpr std::size_t most_at_once = std::size_t{1} << 30U;
  while (!into.empty()) {
    const std::size_t wanted = std::min(into.size(), most_at_once);
    const iovec here{into.data(), wanted};
    const iovec there{reinterpret_cast<void*>(address), wanted};
    const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) {
      const int number = errno;
      if (got < 0 && (number == EPERM || number == ENOSYS || number == EACCES))
        return fail("unsupported", fmt::format("its memory cannot be read: {}", std::strerror(number)));
      return fail("launch_failed", "its results are not where it said");
    }
    address += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

/// Element by element, in the order of their indices.
void copy_strided(const std::vector<std::int64_t>& shape, const std::byte* from,
                  const std::vector<std::int64_t>& from_strides, std::byte* to,
                  const std::vector<std::int64_t>& to_strides, std::size_t size) {
  const std::size_t dims = shape.size();
  std::vector<std::int64_t> index(dims, 0);
  const std::int64_t inner = dims == 0 ? 1 : shape.back();
  const std::int64_t step_from = dims == 0 ? 0 : from_strides.back(), step_to = dims == 0 ? 0 : to_strides.back();
  const auto width = static_cast<std::int64_t>(size);
  while (true) {
    std::int64_t at_from = 0, at_to = 0;
    for (std::size_t d = 0; d + 1 < dims; ++d) {
      at_from += index[d] * from_strides[d];
      at_to += index[d] * to_strides[d];
    }
    for (std::int64_t i = 0; i < inner; ++i)
      std::memcpy(to + (at_to + i * step_to) * width, from + (at_from + i * step_from) * width, size);
    std::size_t d = dims < 2 ? 0 : dims - 1;
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

Status take_one(pid_t process, const Layout& layout, const worker::SharedBuffer& buffer) {
  if (std::ranges::find(buffer.shape, 0) != buffer.shape.end()) return {};
  const auto size = static_cast<std::size_t>(buffer.bytes / extent(buffer.shape, buffer.strides));
  PLANISH_TRY(const Mapped mapped, Mapped::of(buffer));
  const std::int64_t elements = extent(buffer.shape, layout.strides);
  if (same_and_dense(buffer.shape, layout.strides, buffer.strides))
    return read_memory(process, layout.address, {mapped.data(), static_cast<std::size_t>(elements) * size});
  // Its runner makes results dense that lie farther apart (docs/formats/wire.md).
  constexpr std::int64_t widest = 16, small = 1 << 20;
  std::int64_t own = 1;
  for (const std::int64_t dim : buffer.shape) own *= dim;
  if (elements > widest * own + small) return fail("launch_failed", "its results lie too far apart");
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size);
  PLANISH_CHECK(read_memory(process, layout.address, bytes));
  copy_strided(buffer.shape, bytes.data(), layout.strides, mapped.data(), buffer.strides, size);
  return {};
}

}  // namespace

Status take_results(pid_t process, const std::string& where, const worker::DataSet& set) {
  if (process <= 0) return fail("unsupported", "the kernel does not say which process answered");
  std::istringstream words(where);
  for (const worker::SharedBuffer& buffer : set.buffers) {
    if (buffer.role != "output") continue;
    std::string word;
    words >> word;
    const auto layout = layout_of(word, buffer.shape.size());
    if (!layout.has_value()) return fail("launch_failed", fmt::format("it did not say where {} is", buffer.name));
    PLANISH_CHECK(take_one(process, *layout, buffer));
  }
  return {};
}

}  // namespace planish
