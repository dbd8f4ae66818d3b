/** Turns `right` into the solution of matrix·v = right, by elimination with pivots; both are overwritten. False if it is singular. */
export function solveLinear(matrix: Float64Array, right: Float64Array): boolean {
  const size = right.length;
  for (let c = 0; c < size; c++) {
    let pivot = c;
    for (let r = c + 1; r < size; r++)
      if (Math.abs(matrix[r * size + c]!) > Math.abs(matrix[pivot * size + c]!)) pivot = r;
    if (!(Math.abs(matrix[pivot * size + c]!) > 1e-300)) return false;
    if (pivot !== c) swapRows(matrix, right, c, pivot);
    for (let r = c + 1; r < size; r++) {
      const factor = matrix[r * size + c]! / matrix[c * size + c]!;
      if (factor === 0) continue;
      for (let k = c; k < size; k++) matrix[r * size + k]! -= factor * matrix[c * size + k]!;
      right[r]! -= factor * right[c]!;
    }
  }
  for (let r = size - 1; r >= 0; r--) {
    for (let k = r + 1; k < size; k++) right[r]! -= matrix[r * size + k]! * right[k]!;
    right[r]! /= matrix[r * size + r]!;
  }
  return true;
}

function swapRows(matrix: Float64Array, right: Float64Array, a: number, b: number): void {
  const size = right.length;
  for (let k = 0; k < size; k++)
    [matrix[a * size + k], matrix[b * size + k]] = [matrix[b * size + k]!, matrix[a * size + k]!];
  [right[a], right[b]] = [right[b]!, right[a]!];
}
