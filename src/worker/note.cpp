#include "worker/note_json.h"

namespace planish {

Json notes_to_json(const std::vector<Note>& notes) {
  Json out = Json::array();
  for (const Note& note : notes) {
    Json item = {{"kind", note.kind}, {"text", note.text}};
    if (!note.about.empty()) {
      item["about"] = note.about;
      item["eager_error"] = number_to_json(note.eager_error);
      item["error"] = number_to_json(note.error);
    }
    out.push_back(std::move(item));
  }
  return out;
}

Result<std::vector<Note>> read_notes(const Json* json) {
  std::vector<Note> notes;
  if (json == nullptr || !json->is_array()) return notes;
  for (const Json& item : *json) {
    Note note;
    ObjectReader reader(item, "protocol", "notes");
    reader.lenient();
    reader.text("kind", note.kind);
    reader.text("text", note.text);
    reader.text("about", note.about, ObjectReader::Need::optional);
    reader.number("eager_error", note.eager_error, ObjectReader::Need::optional);
    reader.number("error", note.error, ObjectReader::Need::optional);
    PLANISH_CHECK(reader.finish());
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace planish
