#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "worker/messages.h"

/// How a compile worker turns sources into binaries, by language.
namespace planish::worker {

/// What a compiler gave: the bytes, and what its own report says of them.
struct Compiled {
  std::string binary;
  std::string log;  ///< warnings; the resource report is taken out
  std::int64_t registers = 0, spill_bytes = 0, shared_bytes = 0;
  std::int64_t local_bytes = 0;
  std::map<std::string, std::int64_t> instructions{};
};

/// The compiler of one language. One caller at a time.
class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;
  /// Its name and version, part of the cache key.
  virtual std::string version() const = 0;
  /// False once it has to be started again.
  virtual bool alive() const { return true; }
  /// `compile_error` carries the compiler's lines; `compile_timeout` past the job's limit.
  virtual Result<Compiled> compile(const CompileJob& job) = 0;
};

/// The compilers of a process, each started when first needed. An absent one is looked for again: somebody may install
/// it meanwhile.
class Compilers {
 public:
  using Start = std::function<Result<std::unique_ptr<KernelCompiler>>()>;
  /// `language` is one that a target has (backend/backend.h): its flags and the name of its binaries are known there.
  void add(std::string language, Start start) { known_[std::move(language)].start = std::move(start); }
  /// From the cache, else compiled and put there. Errors are those of Compiler (worker/compiler.h).
  Result<CompileReply> compile(const CompileJob& job);

 private:
  struct Known {
    Start start;
    std::unique_ptr<KernelCompiler> compiler;
  };
  std::map<std::string, Known, std::less<>> known_;
};

/// A compiler of its own type behind the interface.
template <class Inner>
class CompilerOf : public KernelCompiler {
 public:
  explicit CompilerOf(Inner inner) : inner_(std::move(inner)) {}
  std::string version() const override { return inner_.version(); }
  bool alive() const override {
    if constexpr (requires { inner_.alive(); }) return inner_.alive();
    return true;
  }
  Result<Compiled> compile(const CompileJob& job) override { return inner_.compile(job); }

  /// What starts one by a function that gives Result<Inner>.
  template <class Find>
  static Compilers::Start starting(Find find) {
    return [find]() -> Result<std::unique_ptr<KernelCompiler>> {
      PLANISH_TRY(Inner inner, find());
      return std::make_unique<CompilerOf>(std::move(inner));
    };
  }

 private:
  Inner inner_;
};

}  // namespace planish::worker
