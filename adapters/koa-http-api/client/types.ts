import type * as shapes from "../shapes.js";

/** The prompt of a run, and how it is to go. */
export type RunRequest = shapes.RunRequest;
/** What a run answered, when it has ended. */
export type RunResult = shapes.RunResult;
/** A run that goes on by itself. */
export type RunBegun = shapes.RunBegun;
/** A run as the store knows it. */
export type Run = shapes.Run;
/** How a run stands. */
export type RunState = shapes.RunState;
/** What a stream tells of a run. */
export type AgentEvent = shapes.AgentEvent;
/** How a stream ended well. */
export type DoneEvent = shapes.DoneEvent;
/** A session, as lists show it. */
export type Session = shapes.Session;
/** One page of sessions. */
export type SessionList = shapes.SessionList;
/** What can be changed of a session. */
export type SessionChange = shapes.SessionChange;
/** What a session says: `type` is the name of the event. */
export type SessionEvent = shapes.SessionEvent;
/** A message of a conversation. */
export type Message = shapes.Message;
/** A part of a message that is more than text. */
export type ContentPart = shapes.ContentPart;
/** A call of a tool, as the model made it. */
export type ToolCall = shapes.ToolCall;
/** A file that a tool changed, before and after. */
export type Diff = shapes.Diff;
/** An entry of a run's todo list. */
export type PlanEntry = shapes.PlanEntry;
/** A command in the background of a session. */
export type ProcessState = shapes.ProcessState;
/** A question of a run to people. */
export type Ask = shapes.Ask;
/** What it is answered with: the id of a choice, or a text. */
export type AnswerRequest = shapes.AnswerRequest;
/** A model, and whose it is. */
export type Model = shapes.Model;
/** What can be said by its name behind a slash. */
export type Command = shapes.Command;
/** How free a session's tools are. */
export type Mode = shapes.Mode;
/** How long a model thinks. */
export type Effort = shapes.Effort;
/** Tokens and what they cost. */
export type Usage = shapes.Usage;
/** That the process lives. */
export type Health = shapes.Health;
/** That runs should be sent there. */
export type Ready = shapes.Ready;
/** That they should not, and why. */
export type NotReady = shapes.NotReady;
