import type { ContentPart } from "gantry/client";
import { formatBytes } from "../parts/format.js";
import { Icon } from "../parts/icon.js";

/** Media types that contain only an image, unlike SVG. */
const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64_PATTERN = /^[A-Za-z0-9+/=\s]*$/;

/** Images and files of a message. */
export function ContentParts({ parts }: { parts: readonly ContentPart[] }) {
  if (parts.length === 0) return null;
  return (
    <div class="parts">
      {parts.map((part, index) => (
        <PartView key={index} part={part} />
      ))}
    </div>
  );
}

function PartView({ part }: { part: ContentPart }) {
  if (part.type === "text") return null;
  const size = formatBytes(Math.floor((part.data.length * 3) / 4));
  if (part.type === "image" && IMAGE_TYPES.has(part.media_type) && BASE64_PATTERN.test(part.data))
    return <img class="picture" alt={`Picture, ${size}`} src={`data:${part.media_type};base64,${part.data}`} />;
  return (
    <span class="file">
      <Icon name={part.type === "image" ? "image" : "file"} />
      <span>
        {part.type === "file" && part.filename !== "" ? part.filename : part.media_type}{" "}
        <span class="aside">{size}</span>
      </span>
    </span>
  );
}
