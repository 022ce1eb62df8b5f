// What forward can reach beside its parameters, compared at each call: the C form of Reached in ship/reach.py. Included
// by _call.cpp alone, for Python's limited API.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace planish_call {

// ---- DLPack 1.x, as https://dmlc.github.io/dlpack documents it ----
struct DlDevice {
  std::int32_t type, index;
};
struct DlType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DlExchange {
  std::uint32_t major, minor;
  void* previous;
  void *allocate, *from_object, *to_object;
  int (*view)(void* object, DlTensor* out);
  int (*stream)(int device_type, std::int32_t device, void** out);
};
constexpr std::int32_t dl_cpu = 1, dl_cuda = 2;
constexpr std::uint8_t dl_float = 2, dl_bfloat = 4, dl_complex = 5;

/// An owned reference.
class Ref {
 public:
  explicit Ref(PyObject* object = nullptr) : object_(object) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  Ref(Ref&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Ref& operator=(Ref&&) = delete;
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* out = object_;
    object_ = nullptr;
    return out;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

enum class Look : std::uint8_t { fits, differs, failed };

/// What forward can reach beside its parameters (ship/reach.py), as it was. Where a dictionary is null, the module's
/// own is meant.
struct Reached {
  struct Entry {
    PyObject *holder = nullptr, *key = nullptr, *value = nullptr;
  };
  struct Size {
    PyObject* container = nullptr;
    Py_ssize_t count = 0;
    enum class Kind : std::uint8_t { dict, list, set } kind = Kind::dict;
  };
  struct Element {
    PyObject* list = nullptr;
    Py_ssize_t index = 0;
    PyObject* value = nullptr;
  };
  std::vector<Entry> items;                               ///< of dictionaries
  std::vector<Entry> absent;                              ///< keys that are not there
  std::vector<Size> sizes;                                ///< of containers
  std::vector<Element> elements;                          ///< of lists, whose length was asked before
  std::vector<Entry> members;                             ///< of sets
  std::vector<Entry> fields;                              ///< attributes that no dictionary holds
  std::vector<Entry> types;                               ///< an object, its class, and its dictionary or null
  std::vector<std::pair<PyObject*, long long>> versions;  ///< of tensors; below zero where any will do
  std::vector<std::pair<PyObject*, PyObject*>> contents;  ///< of tensors on the CPU: their first bytes
  std::vector<Entry> orders;   ///< a dictionary, its keys in their order, and what iterates over it or null
  std::vector<Entry> answers;  ///< a function without arguments, null, and what it answered
};
/// Reads the keyword arguments; the first thing that is missing or of another kind ends it with an exception.
class Reader {
 public:
  explicit Reader(PyObject* fields) : fields_(fields) {}
  bool failed() const { return PyErr_Occurred() != nullptr; }

  PyObject* field(const char* name) {
    PyObject* found = failed() ? nullptr : PyDict_GetItemString(fields_, name);
    if (found == nullptr && !failed()) PyErr_Format(PyExc_TypeError, "a plan needs '%s'", name);
    return found;
  }
  PyObject* item(PyObject* sequence, Py_ssize_t i) {
    if (sequence == nullptr || failed()) return nullptr;
    if (PyTuple_Check(sequence)) return PyTuple_GetItem(sequence, i);
    return PyList_GetItem(sequence, i);  // raises where it is no list
  }
  Py_ssize_t size(PyObject* sequence) {
    if (sequence == nullptr || failed()) return 0;
    const Py_ssize_t n = PyTuple_Check(sequence) ? PyTuple_Size(sequence) : PyList_Size(sequence);
    return n < 0 ? 0 : n;
  }
  long long number(PyObject* value) { return value == nullptr || failed() ? 0 : PyLong_AsLongLong(value); }
  void* address(PyObject* value) { return value == nullptr || failed() ? nullptr : PyLong_AsVoidPtr(value); }
  std::vector<std::int64_t> numbers(PyObject* sequence) {
    std::vector<std::int64_t> out;
    for (Py_ssize_t i = 0; i < size(sequence); ++i) out.push_back(number(item(sequence, i)));
    return out;
  }

 private:
  PyObject* fields_;
};

/// Whether an attribute is the object that it was. A slot or a closure's cell that was emptied differs.
inline Look same_field(const Reached::Entry& field) {
  const Ref found(PyObject_GetAttr(field.holder, field.key));
  if (found) return found.get() == field.value ? Look::fits : Look::differs;
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0 && PyErr_ExceptionMatches(PyExc_ValueError) == 0)
    return Look::failed;
  PyErr_Clear();
  return Look::differs;
}

/// Comparison of a tensor's `requires_grad`, which `needs_grad` names, with False; any fits where that is null.
inline Look asks_no_gradients(PyObject* tensor, PyObject* needs_grad) {
  if (needs_grad == nullptr) return Look::fits;
  const Ref needs(PyObject_GetAttr(tensor, needs_grad));
  if (!needs) return Look::failed;
  return needs.get() == Py_False ? Look::fits : Look::differs;
}

/// Comparison of a tensor with what it was (any fits where `version` is below zero); it differs where it asks for
/// gradients and there could be some: then `needs_grad` is the name of the attribute that says so, else null.
inline Look same_version(PyObject* tensor, long long version, PyObject* version_name, PyObject* needs_grad) {
  if (version >= 0) {
    const Ref now(PyObject_GetAttr(tensor, version_name));
    if (!now) return Look::failed;
    if (PyLong_AsLongLong(now.get()) != version) return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
  }
  return asks_no_gradients(tensor, needs_grad);
}

/// Bytes from a tensor's first to just after its last.
inline std::size_t extent(std::size_t dims, const std::int64_t* shape, const std::int64_t* strides, DlType dtype) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < dims; ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return static_cast<std::size_t>(last + 1) * ((dtype.bits * dtype.lanes + 7U) / 8U);
}
inline std::size_t extent(const DlTensor& t) {
  return extent(static_cast<std::size_t>(t.ndim), t.shape, t.strides, t.dtype);
}

inline bool same_contents(const DlExchange& torch, PyObject* tensor, PyObject* bytes) {
  DlTensor t{};
  if (torch.view(tensor, &t) != 0) {
    PyErr_Clear();
    return false;
  }
  const auto kept = static_cast<std::size_t>(PyBytes_Size(bytes));
  const std::size_t size = extent(t);
  if (t.device.type != dl_cpu || size < kept || (size == 0) != (kept == 0)) return false;
  return kept == 0 || std::memcmp(static_cast<char*>(t.data) + t.byte_offset, PyBytes_AsString(bytes), kept) == 0;
}

/// Comparison of a dictionary's keys with a tuple of them; how many there are was asked before.
inline bool same_keys(PyObject* dict, PyObject* keys) {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_Size(keys); ++i) {
    if (PyDict_Next(dict, &position, &key, &value) == 0 || key != PyTuple_GetItem(keys, i)) return false;
  }
  return true;
}

/// The same comparison, by what iterates over the dictionary where that is not null.
inline Look same_order(const Reached::Entry& order, PyObject* dict) {
  if (order.value == nullptr) return same_keys(dict, order.key) ? Look::fits : Look::differs;
  const Py_ssize_t count = PyTuple_Size(order.key);
  const Ref all(PyObject_CallFunctionObjArgs(order.value, dict, nullptr));
  if (!all) return Look::failed;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Ref key(PyIter_Next(all.get()));
    if (!key) return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
    if (key.get() != PyTuple_GetItem(order.key, i)) return Look::differs;
  }
  return Look::fits;
}

/// Comparison of a function's answer with the earlier one.
inline Look same_answer(const Reached::Entry& question) {
  const Ref now(PyObject_CallNoArgs(question.holder));
  if (!now) return Look::failed;
  if (now.get() == question.value) return Look::fits;
  const int equal = PyObject_RichCompareBool(now.get(), question.value, Py_EQ);
  return equal < 0 ? Look::failed : equal != 0 ? Look::fits : Look::differs;
}

/// Whether what forward can reach is what it was, by the same comparisons as Reached.fits in ship/reach.py.
/// `version` and `needs_grad` are names of attributes; the latter is null where no gradients can be asked for.
inline Look is_captured(const Reached& reached, const DlExchange& torch, PyObject* module, PyObject* version,
                        PyObject* needs_grad) {
  const Ref root(PyObject_GenericGetDict(module, nullptr));
  if (!root) return Look::failed;
  const auto of = [&](PyObject* holder) { return holder != nullptr ? holder : root.get(); };
  bool same = true;
  for (const auto& [thing, type, attributes] : reached.types) {
    same = same && reinterpret_cast<PyObject*>(Py_TYPE(thing)) == type;
    if (!same || attributes == nullptr) continue;
    const Ref now(PyObject_GenericGetDict(thing, nullptr));
    if (!now) return Look::failed;
    same = now.get() == attributes;
  }
  for (const auto& [container, count, kind] : reached.sizes) {
    using enum Reached::Size::Kind;
    const Py_ssize_t size = kind == dict   ? PyDict_Size(of(container))
                            : kind == list ? PyList_Size(container)
                                           : PySet_Size(container);
    same = same && size == count;
  }
  for (const auto& [holder, key, value] : reached.items) {
    same = same && PyDict_GetItemWithError(of(holder), key) == value;
  }
  for (const auto& [holder, key, _] : reached.absent) {
    same = same && PyDict_GetItemWithError(of(holder), key) == nullptr;
  }
  if (PyErr_Occurred() != nullptr) return Look::failed;
  if (!same) return Look::differs;
  for (const auto& [list, index, value] : reached.elements) {
    if (PyList_GetItem(list, index) != value) return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
  }
  for (const auto& [set, _, value] : reached.members) {
    const int there = PySet_Contains(set, value);
    if (there != 1) return there < 0 ? Look::failed : Look::differs;
  }
  for (const Reached::Entry& field : reached.fields) {
    if (const Look look = same_field(field); look != Look::fits) return look;
  }
  for (const auto& [tensor, then] : reached.versions) {
    if (const Look look = same_version(tensor, then, version, needs_grad); look != Look::fits) return look;
  }
  for (const auto& [tensor, bytes] : reached.contents) {
    if (!same_contents(torch, tensor, bytes)) return Look::differs;
  }
  for (const Reached::Entry& order : reached.orders) {
    if (const Look look = same_order(order, of(order.holder)); look != Look::fits) return look;
  }
  for (const Reached::Entry& question : reached.answers) {
    if (const Look look = same_answer(question); look != Look::fits) return look;
  }
  return Look::fits;
}

/// Rows of up to three objects; None as the first means the module's own dictionary.
inline std::vector<Reached::Entry> read_entries(Reader& read, PyObject* rows, Py_ssize_t columns) {
  std::vector<Reached::Entry> out;
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* row = read.item(rows, i);
    PyObject* holder = read.item(row, 0);
    out.push_back({holder == Py_None ? nullptr : holder, read.item(row, 1), columns > 2 ? read.item(row, 2) : nullptr});
  }
  return out;
}

/// A dictionary of lists, as Reached.plan() in ship/reach.py makes it.
inline void read_reached(PyObject* fields, Reached& out) {
  if (fields == nullptr) return;
  if (PyDict_Check(fields) == 0) {
    PyErr_SetString(PyExc_TypeError, "`reached` is no dictionary");
    return;
  }
  Reader lists(fields);
  out.items = read_entries(lists, lists.field("items"), 3);
  out.absent = read_entries(lists, lists.field("absent"), 2);
  out.fields = read_entries(lists, lists.field("fields"), 3);
  out.members = read_entries(lists, lists.field("members"), 2);
  for (Reached::Entry& member : out.members) member.value = member.key;
  PyObject* rows = lists.field("sizes");
  for (Py_ssize_t i = 0; i < lists.size(rows); ++i) {
    PyObject* row = lists.item(rows, i);
    PyObject* container = lists.item(row, 0);
    out.sizes.push_back({container == Py_None ? nullptr : container,
                         static_cast<Py_ssize_t>(lists.number(lists.item(row, 1))),
                         static_cast<Reached::Size::Kind>(lists.number(lists.item(row, 2)))});
  }
  rows = lists.field("elements");
  for (Py_ssize_t i = 0; i < lists.size(rows); ++i) {
    PyObject* row = lists.item(rows, i);
    out.elements.push_back(
        {lists.item(row, 0), static_cast<Py_ssize_t>(lists.number(lists.item(row, 1))), lists.item(row, 2)});
  }
  out.types = read_entries(lists, lists.field("types"), 3);
  for (Reached::Entry& entry : out.types) {
    if (entry.value == Py_None) entry.value = nullptr;
  }
  out.orders = read_entries(lists, lists.field("orders"), 3);
  for (Reached::Entry& entry : out.orders) {
    if (entry.value == Py_None) entry.value = nullptr;
  }
  out.answers = read_entries(lists, lists.field("answers"), 3);
  rows = lists.field("versions");
  for (Py_ssize_t i = 0; i < lists.size(rows); ++i) {
    PyObject* tensor = lists.item(lists.item(rows, i), 0);
    out.versions.emplace_back(tensor, lists.number(lists.item(lists.item(rows, i), 1)));
  }
  rows = lists.field("contents");
  for (Py_ssize_t i = 0; i < lists.size(rows); ++i) {
    PyObject* tensor = lists.item(lists.item(rows, i), 0);
    out.contents.emplace_back(tensor, lists.item(lists.item(rows, i), 1));
  }
}

}  // namespace planish_call
