import type { Model } from "gantry/plugin";

type Efforts = NonNullable<Model["efforts"]>;

export interface ClaudeThinking {
  /** By itself, as much as an effort allows, or within a number of tokens. */
  readonly how: "adaptive" | "budget";
  /** Efforts that it takes, the least first. */
  readonly efforts: Efforts;
  /** What keeps a call that needs no thoughts from thinking: nothing need be said, it is told so, or it is only held to little. */
  readonly quiet: "unasked" | "disabled" | "low";
  /** Whether its thoughts belong to the very text before them: where that has changed they are to be dropped, or the call is refused. */
  readonly isBound: boolean;
}

const NAME = /claude-(?:(opus|sonnet|haiku|fable|mythos)-)?(\d+)(?:[.-](\d{1,2}))?(?!\d)/i;

/** What is known of a model by its id; undefined where it is no Claude, or one that does not think. */
export function claudeThinking(id: string): ClaudeThinking | undefined {
  if (/claude-mythos-preview/i.test(id)) return adaptive("low", false);
  const found = NAME.exec(id);
  if (found === null) return undefined;
  const version = Number(found[2]) * 100 + Number(found[3] ?? 0);
  const isGreat = /fable|mythos/i.test(found[1] ?? "");
  if (version === 307 || (version >= 400 && version < 406 && !isGreat))
    return { how: "budget", efforts: ["minimal", "low", "medium", "high", "max"], quiet: "unasked", isBound: false };
  if (version < 400) return undefined;
  const hasMore = version >= 500 || (found[1] === "opus" && version >= 407);
  const quiet = isGreat || version >= 505 ? "low" : version >= 500 ? "disabled" : "unasked";
  return { ...adaptive(quiet, hasMore), isBound: version >= (isGreat ? 501 : 505) };
}

function adaptive(quiet: ClaudeThinking["quiet"], hasMore: boolean): ClaudeThinking {
  const efforts: Efforts = ["low", "medium", "high", ...(hasMore ? ["xhigh" as const] : []), "max"];
  return { how: "adaptive", efforts, quiet, isBound: false };
}
