import { AttachmentError, type FilePart, type ImagePart } from "gantry";
import { isRecord } from "gantry/plugin";
import { invalidField } from "./fields.js";

const IMAGES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const MEDIA_TYPE = /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const MIB = 1024 * 1024;
/** Limits: bytes of a file, bytes of all files, number of files (as for `files`), characters of a file name. */
const ATTACHMENT_LIMITS = { bytes: 20 * MIB, total: 64 * MIB, files: 256, name: 255 };

/** Reads the attached files of a request body. Throws `HttpError`, and `AttachmentError` for too many bytes. */
export function attachedFiles(value: unknown): (ImagePart | FilePart)[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > ATTACHMENT_LIMITS.files) throw invalidField("attachments");
  let total = 0;
  return value.map((attachment: unknown, at) => {
    const wrong = (field = "") => invalidField(`attachments[${at}]${field}`);
    if (!isRecord(attachment)) throw wrong();
    const { filename, media_type: mediaType, data } = attachment;
    // The model and users see the name: it must be one line without a path.
    if (
      typeof filename !== "string" ||
      !/^[^\p{Cc}\p{Surrogate}/\\]+$/u.test(filename) ||
      filename.length > ATTACHMENT_LIMITS.name
    )
      throw wrong(".filename");
    if (typeof mediaType !== "string" || !MEDIA_TYPE.test(mediaType)) throw wrong(".media_type");
    if (typeof data !== "string" || data.length % 4 !== 0 || !BASE64.test(data)) throw wrong(".data");
    const bytes = Buffer.byteLength(data, "base64");
    if (bytes > ATTACHMENT_LIMITS.bytes) throw new AttachmentError(filename, "larger than 20 MiB");
    total += bytes;
    if (total > ATTACHMENT_LIMITS.total) throw new AttachmentError(filename, "more than 64 MiB of files");
    // An empty image is sent as a file: providers would reject every later request of the session.
    return IMAGES.has(mediaType) && bytes > 0
      ? { type: "image", mediaType, data }
      : { type: "file", mediaType, filename, data };
  });
}
