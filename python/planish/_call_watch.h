// Dictionaries that are compared again only where they may have changed since they were found as captured. Included by
// _call.cpp alone, for Python's limited API.
#pragma once

#include <Python.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "_call_reached.h"

namespace planish_call {

/// Numbers of dictionaries, each another one after every change. Pythons before 3.12 keep one in each dictionary (PEP
/// 509). Later ones tell a callback before a dictionary changes (PyDict_Watch), which counts here; the limited API
/// does not name these functions, so they are looked up. Used with the GIL held, by the interpreter that starts it.
class Changes {
 public:
  static Changes& instance() {
    static auto* const changes = new Changes;  // never destroyed: dictionaries call back until the interpreter's end
    return *changes;
  }

  /// Finds out, once, how this interpreter tells of changes.
  void start() {
    if (interpreter_ != nullptr) return;
    interpreter_ = PyInterpreterState_Get();
    const auto find = [](const char* name, auto& function) {
      void* found = dlsym(RTLD_DEFAULT, name);
      std::memcpy(&function, &found, sizeof found);
      return found != nullptr;
    };
    int (*add)(Callback) = nullptr;
    if (find("PyDict_AddWatcher", add) && find("PyDict_Watch", watch_) && find("PyDict_Unwatch", unwatch_)) {
      id_ = add(&count);
      way_ = id_ >= 0 ? Way::callback : Way::none;  // others may have taken all there are
    } else if (std::strncmp(Py_GetVersion(), "3.10.", 5) == 0 || std::strncmp(Py_GetVersion(), "3.11.", 5) == 0) {
      way_ = Way::tag;
    }
    if (way_ != Way::none && !tells()) way_ = Way::none;
    PyErr_Clear();
  }

  /// "callback", "tag", or "none": then dictionaries are compared at each call.
  const char* way() const { return way_ == Way::callback ? "callback" : way_ == Way::tag ? "tag" : "none"; }

  /// The number's place, until `forget`; null where no changes are told.
  const std::uint64_t* watch(PyObject* dict) {
    if (way_ == Way::none || PyInterpreterState_Get() != interpreter_) return nullptr;
    if (way_ == Way::tag) return tag(dict);
    auto& slot = slots_[dict];
    if (slot == nullptr) {
      if (watch_(id_, dict) != 0) {
        PyErr_Clear();
        slots_.erase(dict);
        return nullptr;
      }
      slot = std::make_unique<Slot>();
    }
    ++slot->users;
    return &slot->changes;
  }

  /// Gives back what one `watch` of the dictionary, which is alive, returned.
  void forget(PyObject* dict) {
    const auto found = slots_.find(dict);
    if (found == slots_.end() || --found->second->users > 0) return;
    slots_.erase(found);
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;  // an exception may be under way
    PyErr_Fetch(&type, &value, &trace);
    if (unwatch_(id_, dict) != 0) PyErr_Clear();
    PyErr_Restore(type, value, trace);
  }

 private:
  enum class Way : std::uint8_t { none, tag, callback };
  struct Slot {
    std::uint64_t changes = 0;
    long users = 0;
  };
  using Callback = int (*)(int event, PyObject* dict, PyObject* key, PyObject* value);

  /// Place of ma_version_tag in a dictionary: behind the object's head and the count of entries.
  static const std::uint64_t* tag(PyObject* dict) {
    return reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const char*>(dict) + sizeof(PyObject) +
                                                  sizeof(Py_ssize_t));
  }

  static int count(int, PyObject* dict, PyObject*, PyObject*) {
    auto& slots = instance().slots_;
    if (const auto found = slots.find(dict); found != slots.end()) ++found->second->changes;
    return 0;
  }

  /// Trial of each kind of change, and of none: a Python built in another way may lay dictionaries out otherwise, and
  /// 3.13.0 tells nothing of attributes that are set (CPython's issue 125608).
  bool tells() {
    const Ref dict(PyDict_New()), other(PyDict_New()), key(PyUnicode_FromString("key"));
    if (!dict || !other || !key || PyDict_SetItem(other.get(), key.get(), Py_False) != 0) return false;
    const std::uint64_t* number = watch(dict.get());
    if (number == nullptr) return false;
    std::uint64_t last = *number;
    const auto changed = [&] { return std::exchange(last, *number) != *number; };
    const bool set = PyDict_SetItem(dict.get(), key.get(), Py_None) == 0 && changed();
    const bool replaced = PyDict_SetItem(dict.get(), key.get(), Py_True) == 0 && changed();
    const bool read = PyDict_GetItemWithError(dict.get(), key.get()) == Py_True && PyDict_Size(dict.get()) == 1;
    const bool quiet = read && !changed();
    const bool merged = PyDict_Update(dict.get(), other.get()) == 0 && changed();
    const bool removed = PyDict_DelItem(dict.get(), key.get()) == 0 && changed();
    const bool again = PyDict_SetItem(dict.get(), key.get(), Py_None) == 0 && changed();
    PyDict_Clear(dict.get());
    const bool cleared = changed();
    forget(dict.get());
    return set && replaced && quiet && merged && removed && again && cleared && tells_of_attributes();
  }

  /// Trial of attributes, set by functions of C and by instructions that adapt to what they meet.
  bool tells_of_attributes() {
    constexpr long times = 64;
    static const char* const text =
        "class Sample:\n"
        "    def __init__(self): self.value = None\n"
        "def change(sample, times):\n"
        "    for i in range(times): sample.value = i\n"
        "sample = Sample()\n";
    const Ref globals(PyDict_New());
    const Ref code(Py_CompileString(text, "<planish>", Py_file_input));
    if (!globals || !code || PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()) != 0)
      return false;
    const Ref done(PyEval_EvalCode(code.get(), globals.get(), globals.get()));
    PyObject* sample = PyDict_GetItemString(globals.get(), "sample");
    PyObject* change = PyDict_GetItemString(globals.get(), "change");
    if (!done || sample == nullptr || change == nullptr) return false;
    const Ref attributes(PyObject_GenericGetDict(sample, nullptr));
    const std::uint64_t* number = attributes ? watch(attributes.get()) : nullptr;
    if (number == nullptr) return false;
    std::uint64_t last = *number;
    const auto changes = [&] { return *number - std::exchange(last, *number); };
    const bool set = PyObject_SetAttrString(sample, "value", Py_True) == 0 && changes() > 0;
    const bool added = PyObject_SetAttrString(sample, "more", Py_True) == 0 && changes() > 0;
    const bool removed = PyObject_SetAttrString(sample, "more", nullptr) == 0 && changes() > 0;
    const Ref called(PyObject_CallFunction(change, "Ol", sample, times));
    const bool adapted = called && changes() >= times;
    forget(attributes.get());
    return set && added && removed && adapted;
  }

  Way way_ = Way::none;
  PyInterpreterState* interpreter_ = nullptr;
  int id_ = -1;
  int (*watch_)(int, PyObject*) = nullptr;
  int (*unwatch_)(int, PyObject*) = nullptr;
  std::unordered_map<PyObject*, std::unique_ptr<Slot>> slots_;
};

/// Contents that one dictionary must have.
struct Holder {
  PyObject* dict = nullptr;
  std::vector<std::pair<PyObject*, PyObject*>> items;  ///< of a key, or null where it may not be there
  Py_ssize_t size = -1;                                ///< below zero: any
  std::vector<PyObject*> orders;                       ///< all its keys, in turn
  /// Dictionaries in it that hold these values, in turn, and the one that did when this was made.
  struct Held {
    PyObject *key = nullptr, *dict = nullptr;
    std::vector<PyObject*> values;
  };
  std::vector<Held> held;
  std::vector<PyObject*> values;  ///< where `exact`: all its values, in turn
  bool exact = false;
};

/// When a dictionary was compared last.
struct Compared {
  const std::uint64_t* now = nullptr;      ///< its number; null: it is compared at each call
  std::uint64_t seen = ~std::uint64_t{0};  ///< that it had then
  bool trusted = false;                    ///< it was compared twice at that number

  /// It was found as captured and is as it was. A callback comes before the change: who calls a module from another
  /// callback for the same change could find a dictionary still unchanged, so one comparison is not enough.
  bool unchanged() const { return trusted && *now == seen; }
};

/// Comparison of a dictionary's values, in turn; false with an exception where they cannot be told. What is stored in
/// an ordered dictionary stays in its place when its order changes, so that its own iteration is asked.
inline bool same_values(PyObject* dict, const std::vector<PyObject*>& wanted) {
  if (dict == nullptr || PyDict_Check(dict) == 0 || PyDict_Size(dict) != static_cast<Py_ssize_t>(wanted.size()))
    return false;
  if (wanted.empty()) return true;
  const Ref values(PyMapping_Values(dict));
  if (!values || PyList_Size(values.get()) != static_cast<Py_ssize_t>(wanted.size())) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (PyList_GetItem(values.get(), static_cast<Py_ssize_t>(i)) != wanted[i]) return false;
  }
  return true;
}

/// Comparison of a dictionary with what it must hold.
inline Look same_holder(const Holder& holder, Compared& compared) {
  const std::uint64_t now = compared.now != nullptr ? *compared.now : 0;
  bool same = holder.size < 0 || PyDict_Size(holder.dict) == holder.size;
  for (const auto& [key, value] : holder.items) same = same && PyDict_GetItemWithError(holder.dict, key) == value;
  for (PyObject* order : holder.orders) same = same && same_keys(holder.dict, order);
  bool known = true;
  for (const auto& [key, dict, values] : holder.held) {
    PyObject* found = same ? PyDict_GetItemWithError(holder.dict, key) : nullptr;
    if (found != nullptr && found == dict) continue;  // it is a holder itself
    known = false;                                    // nobody watches this one
    same = same && same_values(found, values);
  }
  if (holder.exact) same = same && same_values(holder.dict, holder.values);
  if (PyErr_Occurred() != nullptr) return Look::failed;
  if (!same) return Look::differs;
  compared.trusted = known && compared.now != nullptr && now == compared.seen && now == *compared.now;
  compared.seen = now;
  return Look::fits;
}

/// The holders of a plan, each dictionary once.
class Holders {
 public:
  Holders() = default;
  Holders(const Holders&) = delete;
  Holders& operator=(const Holders&) = delete;
  ~Holders() {
    for (std::size_t i = 0; i < compared_.size(); ++i) {
      if (compared_[i].now != nullptr) Changes::instance().forget(all_[i].dict);
    }
  }

  /// Valid until the next one is asked for.
  Holder& of(PyObject* dict) {
    const auto [found, added] = places_.try_emplace(dict, all_.size());
    if (added) all_.emplace_back().dict = dict;
    return all_[found->second];
  }
  std::size_t place(PyObject* dict) {
    of(dict);
    return places_.at(dict);
  }

  /// After the last was added.
  void watch() {
    compared_.resize(all_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      // The order of other dictionaries' entries may change and nobody is told.
      const Holder& holder = all_[i];
      const bool ordered = !holder.orders.empty() || (holder.exact && holder.values.size() > 1);
      if (PyDict_Check(holder.dict) != 0 && (!ordered || Py_TYPE(holder.dict) == &PyDict_Type))
        compared_[i].now = Changes::instance().watch(holder.dict);
    }
  }

  bool unchanged(std::size_t place) const { return compared_[place].unchanged(); }

  /// How many the last comparison looked into, to the first that differs.
  std::size_t looked_into() const { return looked_into_; }

  /// Compares those that may have changed.
  Look compare() {
    looked_into_ = 0;
    for (std::size_t i = 0; i < compared_.size(); ++i) {
      if (compared_[i].unchanged()) continue;
      ++looked_into_;
      if (const Look look = same_holder(all_[i], compared_[i]); look != Look::fits) return look;
    }
    return Look::fits;
  }

 private:
  std::vector<Holder> all_;
  std::vector<Compared> compared_;
  std::size_t looked_into_ = 0;
  std::unordered_map<PyObject*, std::size_t> places_;
};

}  // namespace planish_call
