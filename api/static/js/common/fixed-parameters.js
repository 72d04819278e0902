// Parameters with one value in a whole sweep.
import { formatName } from "./format.js";
import { formatCoordinates } from "./labels.js";

/** Format parameters in one line: k = 2, Δ = 0.001, erf, gaussian. */
export function formatFixed(fixed) {
  const {
    activation, teacher_activation: teacherActivation, "init.kind": start, "init.teacher": teacher, ...numbers
  } = fixed ?? {};
  const hasOtherTeacher = teacherActivation && teacherActivation !== activation;
  return [
    formatCoordinates(numbers),
    activation,
    hasOtherTeacher && `${teacherActivation} teacher`,
    start && `${formatName(start)} start`,
    teacher && `${teacher} teacher`,
  ].filter(Boolean).join(", ");
}
