#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace planish {

/// Names of all kinds of errors, of our processes in C++ and Python (a test compares these), in groups as in
/// docs/formats/result.md. The first is what an error is that a foreign program gave a name of its own.
inline constexpr auto error_kind_names = std::to_array<std::string_view>({
    "unknown",

    // The command line, and what was named on it.
    "usage",
    "bad_accuracy",
    "bad_request",
    "bad_argument",
    "busy",
    "cancelled",
    "interrupted",
    "ambiguous_candidate",
    "ambiguous_pattern",
    "ambiguous_run",
    "name_taken",
    "no_such_candidate",
    "no_such_corpus",
    "no_such_file",
    "no_such_folder",
    "no_such_object",
    "no_such_pattern",
    "no_such_region",
    "no_such_run",
    "no_such_trial",
    "not_a_file",
    "not_a_folder",
    "not_replayable",
    "not_running",
    "no_solutions",
    "no_tasks",
    "task_changed",
    "unreadable",

    // A task: its file or module, what it does, and whether something can be proven about it.
    "already_attached",
    "capture_mismatch",
    "data_dependent",
    "dynamic_shape",
    "forward_failed",
    "import_exited",
    "import_failed",
    "init_failed",
    "init_inputs_failed",
    "inputs_failed",
    "missing_import",
    "no_inputs",
    "no_model",
    "no_region",
    "no_variant",
    "not_a_task",
    "not_exportable",
    "not_importable",
    "not_python",
    "not_tensors",
    "random_ops",
    "reference_nan",
    "shadows",
    "skipped",
    "task_crashed",
    "task_exited",
    "task_hangs",
    "unsupported",
    "unsupported_op",

    // What is installed, memory, disks and devices.
    "cache_unwritable",
    "device_lost",
    "disk_full",
    "environment",
    "io",
    "missing_package",
    "missing_runtime",
    "no_cluster",
    "no_compiler",
    "no_counters",
    "no_device",
    "no_libcurl",
    "no_libmicrohttpd",
    "no_ncu",
    "no_such_program",
    "no_torch",
    "not_built",
    "out_of_memory",
    "permission_denied",
    "read_only",
    "spawn_failed",

    // Our processes, and what they say to each other.
    "bad_message",
    "closed",
    "crash",
    "exit",
    "hang",
    "infrastructure",
    "internal",
    "killed",
    "no_channel",
    "no_server",
    "no_session",
    "not_local",
    "out_of_time",
    "protocol",
    "stopped",
    "stopping",
    "time_limit",
    "timeout",
    "worker_lost",

    // Candidates and programs: what they are written as, compiled and run.
    "bad_answer",
    "bad_genome",
    "bad_graph",
    "bad_patch",
    "bad_plan",
    "bad_program",
    "bad_proposal",
    "bad_source",
    "bad_verdict",
    "coder_failed",
    "compile_error",
    "compile_timeout",
    "cycle",
    "illegal_address",
    "illegal_genome",
    "illegal_plan",
    "input_write",
    "launch_failed",
    "load_failed",
    "no_code",
    "order_violation",
    "runner_error",
    "several_programs",
    "space",

    // Baselines.
    "fell_back",
    "wrong_when_timed",

    // Files of ours and of others.
    "bad_baseline_times",
    "bad_cache",
    "bad_eval_results",
    "bad_evaluation",
    "bad_origin",
    "bad_result",
    "bad_task",
    "bad_text",
    "bad_times",
    "binary",
    "changed",
    "store_busy",
    "store_corrupt",
    "store_failed",
    "store_newer",
    "store_unwritable",
    "too_large",
    "bad_features",
    "bad_catalogue",

    // What ships.
    "altered",
    "foreign_code",
    "in_the_way",
    "live_module",
    "not_shipped",
    "another_module",
    "optimize_failed",

    // Patterns.
    "bad_filter",
    "bad_kind",
    "bad_row",
    "bad_vectors",
    "nothing_found",
    "reader_failed",

    // Language models and recordings of them.
    "bad_chat_request",
    "bad_model_key",
    "cassette_corrupt",
    "cassette_exists",
    "cassette_miss",
    "cassette_version",
    "model_bad_reply",
    "model_context",
    "model_cut",
    "model_overloaded",
    "model_quota",
    "model_rate_limited",
    "model_rejected",
    "model_stalled",
    "model_timeout",
    "model_too_long",
    "model_unauthorized",
    "model_unknown",
    "model_unreachable",
    "models_config",
    "no_model_for_role",
    "no_model_key",
    "no_models",
    "not_recorded",
    "replay_differs",
    "spending_cap",

    // Servers of ours.
    "bad_address",
    "cannot_listen",
    "id_taken",
    "queue_full",
    "no_such_task",
    "no_such_grade",
    "no_such_path",
    "unauthorized",
    "foreign_origin",
    "bad_method",
    "bad_type",
    "no_length",
    "too_long",
    "task_sources_off",
    "unreachable",
});

/// What sort of thing went wrong: what programs match on. One of error_kind_names, and as cheap to copy and to compare
/// as a number. A literal that is none of them does not compile.
class ErrorKind {
 public:
  consteval ErrorKind(const char* name)  // NOLINT(google-explicit-constructor): literals are names
      : at_(position(name)) {
    if (at_ == error_kind_names.size()) throw "no kind of error has this name";
  }
  /// Of a name that came from elsewhere.
  static std::optional<ErrorKind> named(std::string_view name) {
    const std::uint16_t at = position(name);
    if (at == error_kind_names.size()) return std::nullopt;
    return ErrorKind(at);
  }
  constexpr std::string_view name() const { return error_kind_names[at_]; }
  friend constexpr bool operator==(ErrorKind, ErrorKind) = default;
  friend constexpr auto operator<=>(ErrorKind, ErrorKind) = default;

 private:
  explicit constexpr ErrorKind(std::uint16_t at) : at_(at) {}
  static constexpr std::uint16_t position(std::string_view name) {
    return static_cast<std::uint16_t>(std::ranges::find(error_kind_names, name) - error_kind_names.begin());
  }
  std::uint16_t at_;
};

}  // namespace planish
