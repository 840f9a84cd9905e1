import { serializeErrors, type LogFormatter } from "./log.js";

/** Formats an entry as one JSON object: `time`, `level`, `message`, then the fields. Loaded only for `log.format`. */
export const formatJsonEntry: LogFormatter = (time, level, message, fields) => {
  const head = { time, level, message };
  try {
    // A field must not replace the time, the level or the message.
    return JSON.stringify(Object.assign({ ...head }, fields, head), serializeErrors);
  } catch {
    return JSON.stringify({ ...head, fields: "unserialisable" });
  }
};
