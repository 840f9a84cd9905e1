import { Icon, type IconName } from "./icon.js";

interface IconButtonProps {
  icon: IconName;
  /** Read aloud, and shown when pointed at. */
  label: string;
  onClick: (event: MouseEvent) => void;
  pressed?: boolean;
  disabled?: boolean;
  class?: string;
}

export function IconButton({ icon, label, onClick, pressed, disabled, class: more = "" }: IconButtonProps) {
  return (
    <button
      type="button"
      class={`icon-button ${more}`}
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}
