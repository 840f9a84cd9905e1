import { Icon } from "../parts/icon.js";
import { notificationChoice, setNotifications } from "./notification-choice.js";

/** Turns desktop notifications on and off. */
export function NotificationButton() {
  const choice = notificationChoice.value;
  if (choice === "unsupported") return null;
  if (choice === "blocked")
    return <span class="notification-note">The browser blocks notifications of this page.</span>;
  const isOn = choice === "on";
  return (
    <button
      type="button"
      class="button"
      aria-pressed={isOn}
      title="Shows a notification for a question and for the end of a run while the page is hidden"
      onClick={() => void setNotifications(!isOn)}
    >
      <Icon name={isOn ? "check" : "bell"} /> Desktop notifications
    </button>
  );
}
