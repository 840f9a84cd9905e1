import { AttachmentError, type FilePart, type ImagePart } from "gantry";
import { isRecord } from "gantry/plugin";
import { createFieldError } from "./body.js";

const IMAGE_MEDIA_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const MEDIA_TYPE_PATTERN = /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/;
/** Characters of base64. The length of the text is checked separately. */
const BASE64_PATTERN = /^[A-Za-z0-9+/]*={0,2}$/;
const MIB = 1024 * 1024;
/** Limits of one request. The field `files` has the same limit for the number of files. */
const ATTACHMENT_LIMITS = { fileBytes: 20 * MIB, totalBytes: 64 * MIB, files: 256, nameCharacters: 255 };

/**
 * Reads the field `attachments` of a request body; an absent field gives an empty list. Throws `HttpError` for an
 * invalid field, and `AttachmentError` for too many bytes.
 */
export function readAttachedFiles(value: unknown): (ImagePart | FilePart)[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > ATTACHMENT_LIMITS.files) throw createFieldError("attachments");
  let totalBytes = 0;
  return value.map((attachment: unknown, index) => {
    const createError = (field = "") => createFieldError(`attachments[${index}]${field}`);
    if (!isRecord(attachment)) throw createError();
    const { filename, media_type: mediaType, data } = attachment;
    // The model and users see the name: it must be one line without a path.
    if (
      typeof filename !== "string" ||
      !/^[^\p{Cc}\p{Surrogate}/\\]+$/u.test(filename) ||
      filename.length > ATTACHMENT_LIMITS.nameCharacters
    )
      throw createError(".filename");
    if (typeof mediaType !== "string" || !MEDIA_TYPE_PATTERN.test(mediaType)) throw createError(".media_type");
    if (typeof data !== "string" || data.length % 4 !== 0 || !BASE64_PATTERN.test(data)) throw createError(".data");
    const bytes = Buffer.byteLength(data, "base64");
    if (bytes > ATTACHMENT_LIMITS.fileBytes) throw new AttachmentError(filename, "larger than 20 MiB");
    totalBytes += bytes;
    if (totalBytes > ATTACHMENT_LIMITS.totalBytes) throw new AttachmentError(filename, "more than 64 MiB of files");
    // An empty image becomes a file: as an image it would make providers reject every later request of the session.
    return IMAGE_MEDIA_TYPES.has(mediaType) && bytes > 0
      ? { type: "image", mediaType, data }
      : { type: "file", mediaType, filename, data };
  });
}
