/** Written instructions for one kind of task, which a model reads when it has such a task. */
export interface Skill {
  /** Unique in a session. */
  readonly name: string;
  /** Single line of at most 200 characters; `""` if the skill has none. */
  readonly description: string;
  /** Author of the skill: the user, or the repository, which is untrusted. */
  readonly origin: "user" | "project";
  /** Absolute path of the folder that contains `SKILL.md`. */
  readonly folder: string;
  /** Absolute path of the folder that bounds the skill: links must not lead out of it. */
  readonly root: string;
}
