import { PointNotFoundError, SeqTakenError } from "../../ports/errors.js";
import type { Message } from "../../ports/message.js";
import type { Session, Snapshot } from "../../ports/session.js";
import type { MessagePage, PartDelta, SessionChange } from "../../ports/session-driver.js";
import type { Chain, ChainDocument, Growing, Link } from "./chain.js";
import { keys } from "./keys.js";

/** Number of messages, or of characters, at which a segment is full. */
const MAX_SEGMENT_MESSAGES = 8;
const MAX_SEGMENT_CHARACTERS = 4096;
/** Number of characters at which a piece of a growing message is full. */
const MAX_PIECE_CHARACTERS = 1024;
/** Number of segments per read of a page. */
const SEGMENTS_PER_READ = 16;

type Segment = readonly Message[];
type Piece = readonly Omit<PartDelta, "messageId">[];

/** Index of the segment that contains, or would contain, a `seq`; -1 if the `seq` is smaller than all. */
function segmentOf({ segments }: Chain, seq: number): number {
  let from = 0;
  let to = segments.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((segments[middle] as number) <= seq) from = middle + 1;
    else to = middle;
  }
  return from - 1;
}

async function segmentsAt(chain: Chain, places: readonly number[]): Promise<Segment[]> {
  const firsts = places.map((place) => chain.segments[place] as number);
  return (await chain.tx.getAll(firsts.map((first) => keys.segment(chain.root, first)))) as Segment[];
}

async function segmentAt(chain: Chain, place: number): Promise<Segment> {
  return (await segmentsAt(chain, [place]))[0] ?? [];
}

/** Approximate size of a message as JSON, in characters. */
function sizeOf({ parts }: Message): number {
  let size = 200;
  for (const part of parts)
    for (const field of Object.values(part)) size += typeof field === "string" ? field.length : 100;
  return size;
}

function isFull(segment: Segment): boolean {
  if (segment.length >= MAX_SEGMENT_MESSAGES) return true;
  return segment.reduce((sum, message) => sum + sizeOf(message), 0) >= MAX_SEGMENT_CHARACTERS;
}

/** Throws `SeqTakenError` if the `seq` of a message is already in use. */
export async function checkSeqs(chain: Chain, added: readonly Message[]): Promise<void> {
  const places = new Set(added.map(({ seq }) => segmentOf(chain, seq)).filter((place) => place >= 0));
  const taken = new Set<number>();
  for (const segment of await segmentsAt(chain, [...places])) for (const { seq } of segment) taken.add(seq);
  for (const { seq } of added) {
    if (taken.has(seq)) throw new SeqTakenError(seq);
    taken.add(seq);
  }
}

/** Throws `PointNotFoundError` if the change appends to or finishes a message that is not growing. */
export function checkGrowing({ content }: Chain, { add = [], append = [], finish = [] }: SessionChange): void {
  for (const id of [...append.map(({ messageId }) => messageId), ...finish.map((message) => message.id)])
    if (
      !content.growing.some((growing) => growing.id === id) &&
      !add.some((message) => message.id === id && !message.finished)
    )
      throw new PointNotFoundError("message");
}

/** Adds messages of one session to the chain and returns their greatest `seq`. */
export async function addMessages(chain: Chain, sessionId: string, added: readonly Message[]): Promise<number> {
  for (const input of added) {
    const message = { ...input, sessionId };
    const { seq } = message;
    const place = segmentOf(chain, seq);
    const segment = place < 0 ? [] : await segmentAt(chain, place);
    const isNew = place < 0 || (isFull(segment) && seq > (segment.at(-1)?.seq ?? 0));
    if (isNew) {
      chain.segments = chain.segments.toSpliced(place + 1, 0, seq);
      chain.tx.set(keys.segment(chain.root, seq), chain.root, [message]);
    } else {
      const at = segment.filter((storedMessage) => storedMessage.seq < seq).length;
      chain.tx.set(
        keys.segment(chain.root, chain.segments[place] as number),
        chain.root,
        segment.toSpliced(at, 0, message),
      );
    }
    note(chain, message);
  }
  return Math.max(0, ...added.map(({ seq }) => seq));
}

/** Records a new message in the chain's document. */
function note(chain: Chain, { id, seq, sessionId, finished }: Message): void {
  const { links, growing } = chain.content;
  const link = links.find((candidate) => candidate.id === sessionId);
  const change: Partial<ChainDocument> = {};
  if (link && (link.first === 0 || link.first > seq))
    change.links = links.map((candidate) => (candidate === link ? { ...link, first: seq } : candidate));
  if (!finished) change.growing = [...growing, { id, seq, pieces: 0 }];
  if (Object.keys(change).length > 0) chain.document = { ...chain.content, ...change };
}

/** The snapshot that hides a message; `""` for none. */
export function hiddenBy({ hidden }: ChainDocument, seq: number): string {
  return hidden.find(({ ranges }) => ranges.some(([from, to]) => from <= seq && seq <= to))?.id ?? "";
}

/** Appends text to growing messages. */
export async function grow(chain: Chain, deltas: readonly PartDelta[]): Promise<void> {
  for (const { messageId, ...delta } of deltas) {
    const growing = chain.content.growing.find(({ id }) => id === messageId);
    if (!growing) continue;
    const last = Math.max(0, growing.pieces - 1);
    const piece = (growing.pieces > 0 && (await chain.tx.get<Piece>(keys.growth(chain.root, messageId, last)))) || [];
    const isNew = growing.pieces === 0 || piece.reduce((sum, { text }) => sum + text.length, 0) >= MAX_PIECE_CHARACTERS;
    const at = isNew ? growing.pieces : last;
    if (isNew) await chain.tx.get(keys.growth(chain.root, messageId, at));
    chain.tx.set(keys.growth(chain.root, messageId, at), chain.root, isNew ? [delta] : joined(piece, delta));
    if (isNew) setGrowing(chain, growing, { ...growing, pieces: growing.pieces + 1 });
  }
}

function joined(piece: Piece, delta: Piece[number]): Piece {
  const last = piece.at(-1);
  if (last?.part !== delta.part || last.type !== delta.type) return [...piece, delta];
  return [...piece.slice(0, -1), { ...last, text: last.text + delta.text }];
}

function setGrowing(chain: Chain, old: Growing, next?: Growing): void {
  const { growing } = chain.content;
  chain.document = { ...chain.content, growing: growing.flatMap((entry) => (entry === old ? (next ?? []) : entry)) };
}

/** Replaces growing messages by their final forms. */
export async function finishMessages(chain: Chain, finals: readonly Message[]): Promise<void> {
  for (const final of finals) {
    const growing = chain.content.growing.find(({ id }) => id === final.id);
    if (!growing) continue;
    const place = segmentOf(chain, growing.seq);
    const segment = (await segmentAt(chain, place)).map((message) => {
      const { seq, sessionId } = message;
      return seq === growing.seq ? { ...final, seq, sessionId, finished: true } : message;
    });
    chain.tx.set(keys.segment(chain.root, chain.segments[place] as number), chain.root, segment);
    await chain.tx.getAll(pieceKeys(chain, growing));
    for (const key of pieceKeys(chain, growing)) chain.tx.delete(key, chain.root);
    setGrowing(chain, growing);
  }
}

function pieceKeys({ root }: Chain, { id, pieces }: Growing): string[] {
  return Array.from({ length: pieces }, (_, piece) => keys.growth(root, id, piece));
}

/** Keys of all documents with messages of the chain. */
export function messageKeys(chain: Chain): string[] {
  const segments = chain.segments.map((first) => keys.segment(chain.root, first));
  return [...segments, ...chain.content.growing.flatMap((growing) => pieceKeys(chain, growing))];
}

/** The messages with their appended text. */
async function grown(chain: Chain, messages: readonly Message[]): Promise<Message[]> {
  const { growing } = chain.content;
  if (growing.length === 0) return [...messages];
  const all: Message[] = [];
  // Sequential: a store gets one request at a time.
  for (const message of messages) {
    const entry = message.finished ? undefined : growing.find(({ seq }) => seq === message.seq);
    all.push(entry && entry.pieces > 0 ? await withPieces(chain, message, entry) : message);
  }
  return all;
}

async function withPieces(chain: Chain, message: Message, entry: Growing): Promise<Message> {
  const pieces = (await chain.tx.getAll(pieceKeys(chain, entry))) as Piece[];
  const parts = message.parts.map((part) => ({ ...part }));
  for (const { part, type, text } of pieces.flat()) {
    const present = parts[part];
    if (present && "text" in present) present.text += text;
    else parts.push({ type, text });
  }
  return { ...message, parts };
}

/** A page of messages of a session, or of its chain. */
export async function messagesOf(chain: Chain, link: Link, page: MessagePage): Promise<Message[]> {
  const { after = 0, before = Infinity, limit = Infinity, hiddenBy: snapshot, tool, scope } = page;
  const { content } = chain;
  const isWanted = (message: Message): boolean => {
    if (message.seq <= after || message.seq >= before) return false;
    const hider = hiddenBy(content, message.seq);
    return (
      (snapshot === undefined ? hider === "" : hider === snapshot && hider !== "") &&
      (scope === "chain" || message.sessionId === link.id) &&
      (tool === undefined || message.name === tool)
    );
  };
  if (limit <= 0 || (scope !== "chain" && link.first === 0)) return [];
  const from = Math.max(0, segmentOf(chain, scope === "chain" ? after + 1 : Math.max(after + 1, link.first)));
  const to = segmentOf(chain, before - 1) + 1;
  // The page wants the last messages, so it reads from the end.
  const isLast = page.after === undefined && page.before !== undefined;
  const count = limit === Infinity ? Infinity : SEGMENTS_PER_READ;
  let messages: Message[] = [];
  let low = from;
  let high = to;
  while (low < high && messages.length < limit) {
    const size = Math.min(count, high - low);
    const start = isLast ? high - size : low;
    const read = await segmentsAt(
      chain,
      Array.from({ length: size }, (_, at) => start + at),
    );
    const matching = read.flat().filter(isWanted);
    messages = isLast ? [...matching, ...messages] : [...messages, ...matching];
    if (isLast) high = start;
    else low = start + size;
  }
  return grown(chain, isLast ? messages.slice(-limit) : messages.slice(0, limit));
}

/** All messages of the chain, including hidden ones. */
export async function allMessages(chain: Chain): Promise<Message[]> {
  return grown(chain, (await segmentsAt(chain, [...chain.segments.keys()])).flat());
}

/** Hides the messages after a point, and the sessions after this one, under a snapshot. */
export async function revertChain(chain: Chain, { chain: { index } }: Session, snapshot: Snapshot): Promise<void> {
  const { links, snapshots, hidden } = chain.content;
  const ranges: [number, number][] = [];
  const from = Math.max(0, segmentOf(chain, snapshot.after + 1));
  const places = Array.from({ length: Math.max(0, chain.segments.length - from) }, (_, at) => from + at);
  for (const { seq } of (await segmentsAt(chain, places)).flat())
    if (seq > snapshot.after && hiddenBy(chain.content, seq) === "") addTo(ranges, seq);
  chain.document = {
    ...chain.content,
    links: links.map((link) => (link.cut === "" && link.index > index ? { ...link, cut: snapshot.id } : link)),
    snapshots: [...snapshots, { ...snapshot }],
    hidden: [...hidden, { id: snapshot.id, ranges }],
  };
}

/** Adds a `seq`, greater than all earlier ones, to the ranges. Missing numbers are in no range. */
export function addTo(ranges: [number, number][], seq: number): void {
  const last = ranges.at(-1);
  if (last?.[1] === seq - 1) last[1] = seq;
  else ranges.push([seq, seq]);
}

/** Makes the messages and sessions of a snapshot visible and removes the snapshot. */
export function restoreChain(chain: Chain, snapshotId: string): void {
  const { links, snapshots, hidden, ...unchangedFields } = chain.content;
  chain.document = {
    ...unchangedFields,
    links: links.map((link) => (link.cut === snapshotId ? { ...link, cut: "" } : link)),
    snapshots: snapshots.filter(({ id }) => id !== snapshotId),
    hidden: hidden.filter(({ id }) => id !== snapshotId),
  };
}

/** Greatest `seq` of the chain, including hidden messages; 0 without messages. */
export async function lastSeqOf(chain: Chain): Promise<number> {
  if (chain.segments.length === 0) return 0;
  return (await segmentAt(chain, chain.segments.length - 1)).at(-1)?.seq ?? 0;
}
