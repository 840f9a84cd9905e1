import { PointNotFoundError, SeqTakenError } from "../../ports/errors.js";
import type { Message } from "../../ports/message.js";
import type { Session, Snapshot } from "../../ports/session.js";
import type { MessageQuery } from "../../ports/session-queries.js";
import type { PartDelta, SessionChange } from "../../ports/session-change.js";
import type { Chain, ChainDocument, GrowingMessage, Link } from "./chain.js";
import { keys } from "./keys.js";

/** Number of messages, or of characters, from which a segment is full. */
const MAX_SEGMENT_MESSAGES = 8;
const MAX_SEGMENT_CHARACTERS = 4096;
/** Number of characters from which a piece of a growing message is full. */
const MAX_PIECE_CHARACTERS = 1024;
/** Number of segments per read. */
const SEGMENTS_PER_READ = 16;

/** Assumed characters of a message besides its parts, and of a field that is not text. */
const MESSAGE_OVERHEAD_CHARACTERS = 200;
const FIELD_CHARACTERS = 100;

type Segment = readonly Message[];
type Piece = readonly Omit<PartDelta, "messageId">[];

/** Finds the index of the segment that contains, or would contain, a `seq`; -1 if the `seq` is smaller than all. */
function findSegmentIndex({ segments }: Chain, seq: number): number {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((segments[middle] as number) <= seq) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

async function readSegments(chain: Chain, indexes: readonly number[]): Promise<Segment[]> {
  const firstSeqs = indexes.map((index) => chain.segments[index] as number);
  return (await chain.tx.getAll(firstSeqs.map((firstSeq) => keys.segment(chain.root, firstSeq)))) as Segment[];
}

async function readSegment(chain: Chain, index: number): Promise<Segment> {
  return (await readSegments(chain, [index]))[0] ?? [];
}

/** Approximate size of a message as JSON, in characters. */
function countCharacters({ parts }: Message): number {
  let characters = MESSAGE_OVERHEAD_CHARACTERS;
  for (const part of parts)
    for (const field of Object.values(part)) characters += typeof field === "string" ? field.length : FIELD_CHARACTERS;
  return characters;
}

function isFull(segment: Segment): boolean {
  if (segment.length >= MAX_SEGMENT_MESSAGES) return true;
  return segment.reduce((sum, message) => sum + countCharacters(message), 0) >= MAX_SEGMENT_CHARACTERS;
}

/** Throws `SeqTakenError` if the `seq` of a message is already in use. */
export async function checkSeqs(chain: Chain, addedMessages: readonly Message[]): Promise<void> {
  const segmentIndexes = new Set(
    addedMessages.map(({ seq }) => findSegmentIndex(chain, seq)).filter((index) => index >= 0),
  );
  const takenSeqs = new Set<number>();
  for (const segment of await readSegments(chain, [...segmentIndexes]))
    for (const { seq } of segment) takenSeqs.add(seq);
  for (const { seq } of addedMessages) {
    if (takenSeqs.has(seq)) throw new SeqTakenError(seq);
    takenSeqs.add(seq);
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
export async function addMessages(chain: Chain, sessionId: string, addedMessages: readonly Message[]): Promise<number> {
  for (const addedMessage of addedMessages) {
    const message = { ...addedMessage, sessionId };
    const { seq } = message;
    const segmentIndex = findSegmentIndex(chain, seq);
    const segment = segmentIndex < 0 ? [] : await readSegment(chain, segmentIndex);
    const isNew = segmentIndex < 0 || (isFull(segment) && seq > (segment.at(-1)?.seq ?? 0));
    if (isNew) {
      chain.segments = chain.segments.toSpliced(segmentIndex + 1, 0, seq);
      chain.tx.set(keys.segment(chain.root, seq), chain.root, [message]);
    } else {
      const position = segment.filter((storedMessage) => storedMessage.seq < seq).length;
      chain.tx.set(
        keys.segment(chain.root, chain.segments[segmentIndex] as number),
        chain.root,
        segment.toSpliced(position, 0, message),
      );
    }
    recordMessage(chain, message);
  }
  return Math.max(0, ...addedMessages.map(({ seq }) => seq));
}

/** Records a new message in the chain's document. */
function recordMessage(chain: Chain, { id, seq, sessionId, finished }: Message): void {
  const { links, growing } = chain.content;
  const link = links.find((candidate) => candidate.id === sessionId);
  const change: Partial<ChainDocument> = {};
  if (link && (link.first === 0 || link.first > seq))
    change.links = links.map((candidate) => (candidate === link ? { ...link, first: seq } : candidate));
  if (!finished) change.growing = [...growing, { id, seq, pieces: 0 }];
  if (Object.keys(change).length > 0) chain.document = { ...chain.content, ...change };
}

/** Finds the id of the snapshot that hides a message; `""` for none. */
export function findHidingSnapshot({ hidden }: ChainDocument, seq: number): string {
  return hidden.find(({ ranges }) => ranges.some(([from, to]) => from <= seq && seq <= to))?.id ?? "";
}

/** Appends text to growing messages. */
export async function appendText(chain: Chain, deltas: readonly PartDelta[]): Promise<void> {
  for (const { messageId, ...delta } of deltas) {
    const growing = chain.content.growing.find(({ id }) => id === messageId);
    if (!growing) continue;
    const lastIndex = Math.max(0, growing.pieces - 1);
    const piece =
      (growing.pieces > 0 && (await chain.tx.get<Piece>(keys.growth(chain.root, messageId, lastIndex)))) || [];
    const isNew = growing.pieces === 0 || piece.reduce((sum, { text }) => sum + text.length, 0) >= MAX_PIECE_CHARACTERS;
    const pieceIndex = isNew ? growing.pieces : lastIndex;
    if (isNew) await chain.tx.get(keys.growth(chain.root, messageId, pieceIndex));
    chain.tx.set(
      keys.growth(chain.root, messageId, pieceIndex),
      chain.root,
      isNew ? [delta] : appendDelta(piece, delta),
    );
    if (isNew) setGrowing(chain, growing, { ...growing, pieces: growing.pieces + 1 });
  }
}

function appendDelta(piece: Piece, delta: Piece[number]): Piece {
  const lastDelta = piece.at(-1);
  if (lastDelta?.part !== delta.part || lastDelta.type !== delta.type) return [...piece, delta];
  return [...piece.slice(0, -1), { ...lastDelta, text: lastDelta.text + delta.text }];
}

/** Replaces the entry of a growing message; without `newEntry`, removes it. */
function setGrowing(chain: Chain, oldEntry: GrowingMessage, newEntry?: GrowingMessage): void {
  const { growing } = chain.content;
  chain.document = {
    ...chain.content,
    growing: growing.flatMap((entry) => (entry === oldEntry ? (newEntry ?? []) : entry)),
  };
}

/** Replaces growing messages by their final forms. */
export async function finishMessages(chain: Chain, finalMessages: readonly Message[]): Promise<void> {
  for (const finalMessage of finalMessages) {
    const growing = chain.content.growing.find(({ id }) => id === finalMessage.id);
    if (!growing) continue;
    const segmentIndex = findSegmentIndex(chain, growing.seq);
    const segment = (await readSegment(chain, segmentIndex)).map((message) => {
      const { seq, sessionId } = message;
      return seq === growing.seq ? { ...finalMessage, seq, sessionId, finished: true } : message;
    });
    chain.tx.set(keys.segment(chain.root, chain.segments[segmentIndex] as number), chain.root, segment);
    await chain.tx.getAll(pieceKeys(chain, growing));
    for (const key of pieceKeys(chain, growing)) chain.tx.delete(key, chain.root);
    setGrowing(chain, growing);
  }
}

function pieceKeys({ root }: Chain, { id, pieces }: GrowingMessage): string[] {
  return Array.from({ length: pieces }, (_, piece) => keys.growth(root, id, piece));
}

/** Lists the keys of all documents with messages of the chain. */
export function listMessageKeys(chain: Chain): string[] {
  const segments = chain.segments.map((firstSeq) => keys.segment(chain.root, firstSeq));
  return [...segments, ...chain.content.growing.flatMap((growing) => pieceKeys(chain, growing))];
}

/** Returns the messages with their appended text. */
async function withAppendedText(chain: Chain, messages: readonly Message[]): Promise<Message[]> {
  const { growing } = chain.content;
  if (growing.length === 0) return [...messages];
  const result: Message[] = [];
  // Sequential, because a store gets one request at a time.
  for (const message of messages) {
    const entry = message.finished ? undefined : growing.find(({ seq }) => seq === message.seq);
    result.push(entry && entry.pieces > 0 ? await withPieces(chain, message, entry) : message);
  }
  return result;
}

async function withPieces(chain: Chain, message: Message, entry: GrowingMessage): Promise<Message> {
  const pieces = (await chain.tx.getAll(pieceKeys(chain, entry))) as Piece[];
  const parts = message.parts.map((part) => ({ ...part }));
  for (const { part, type, text } of pieces.flat()) {
    const existingPart = parts[part];
    if (existingPart && "text" in existingPart) existingPart.text += text;
    else parts.push({ type, text });
  }
  return { ...message, parts };
}

/** Reads a page of messages of a session, or of its chain. */
export async function messagesOf(chain: Chain, link: Link, page: MessageQuery): Promise<Message[]> {
  const { after = 0, before = Infinity, limit = Infinity, hiddenBy: snapshot, tool, scope } = page;
  const { content } = chain;
  const isInPage = (message: Message): boolean => {
    if (message.seq <= after || message.seq >= before) return false;
    const hidingSnapshot = findHidingSnapshot(content, message.seq);
    return (
      (snapshot === undefined ? hidingSnapshot === "" : hidingSnapshot === snapshot && hidingSnapshot !== "") &&
      (scope === "chain" || message.sessionId === link.id) &&
      (tool === undefined || message.name === tool)
    );
  };
  if (limit <= 0 || (scope !== "chain" && link.first === 0)) return [];
  const firstIndex = Math.max(
    0,
    findSegmentIndex(chain, scope === "chain" ? after + 1 : Math.max(after + 1, link.first)),
  );
  const endIndex = findSegmentIndex(chain, before - 1) + 1;
  // A query with only `before` selects the last messages, so read from the end.
  const readsFromEnd = page.after === undefined && page.before !== undefined;
  const maxSegments = limit === Infinity ? Infinity : SEGMENTS_PER_READ;
  let messages: Message[] = [];
  let low = firstIndex;
  let high = endIndex;
  while (low < high && messages.length < limit) {
    const segmentCount = Math.min(maxSegments, high - low);
    const startIndex = readsFromEnd ? high - segmentCount : low;
    const segments = await readSegments(
      chain,
      Array.from({ length: segmentCount }, (_, i) => startIndex + i),
    );
    const matchingMessages = segments.flat().filter(isInPage);
    messages = readsFromEnd ? [...matchingMessages, ...messages] : [...messages, ...matchingMessages];
    if (readsFromEnd) high = startIndex;
    else low = startIndex + segmentCount;
  }
  return withAppendedText(chain, readsFromEnd ? messages.slice(-limit) : messages.slice(0, limit));
}

/** Reads all messages of the chain, including hidden ones. */
export async function readAllMessages(chain: Chain): Promise<Message[]> {
  return withAppendedText(chain, (await readSegments(chain, [...chain.segments.keys()])).flat());
}

/** Hides the messages after `snapshot.after`, and the sessions after the given session, under a snapshot. */
export async function revertChain(chain: Chain, { chain: { index } }: Session, snapshot: Snapshot): Promise<void> {
  const { links, snapshots, hidden } = chain.content;
  const ranges: [number, number][] = [];
  const firstIndex = Math.max(0, findSegmentIndex(chain, snapshot.after + 1));
  const laterIndexes = Array.from(
    { length: Math.max(0, chain.segments.length - firstIndex) },
    (_, i) => firstIndex + i,
  );
  for (const { seq } of (await readSegments(chain, laterIndexes)).flat())
    if (seq > snapshot.after && findHidingSnapshot(chain.content, seq) === "") addToRanges(ranges, seq);
  chain.document = {
    ...chain.content,
    links: links.map((link) => (link.cut === "" && link.index > index ? { ...link, cut: snapshot.id } : link)),
    snapshots: [...snapshots, { ...snapshot }],
    hidden: [...hidden, { id: snapshot.id, ranges }],
  };
}

/** Adds a `seq`, greater than all earlier ones, to the ranges. Missing numbers are in no range. */
export function addToRanges(ranges: [number, number][], seq: number): void {
  const lastRange = ranges.at(-1);
  if (lastRange?.[1] === seq - 1) lastRange[1] = seq;
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

/** Reads the greatest `seq` of the chain, including hidden messages; 0 without messages. */
export async function readLastSeq(chain: Chain): Promise<number> {
  if (chain.segments.length === 0) return 0;
  return (await readSegment(chain, chain.segments.length - 1)).at(-1)?.seq ?? 0;
}
