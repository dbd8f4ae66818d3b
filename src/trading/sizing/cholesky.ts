/**
 * L with L·Lᵀ = matrix, in place: of the symmetric matrix, row by row, only the lower triangle is read. Undefined where
 * rounding has left it without a positive pivot.
 */
export function factorise(matrix: Float64Array, size: number): Float64Array | undefined {
  for (let i = 0; i < size; i++)
    for (let j = 0; j <= i; j++) {
      let value = matrix[i * size + j]!;
      for (let k = 0; k < j; k++) value -= matrix[i * size + k]! * matrix[j * size + k]!;
      if (j < i) matrix[i * size + j] = value / matrix[j * size + j]!;
      else if (value > 0) matrix[i * size + i] = Math.sqrt(value);
      else return undefined;
    }
  return matrix;
}

/** Turns the right side of L·Lᵀ·v = right into v. */
export function solveFactored(factor: Float64Array, right: Float64Array): void {
  const size = right.length;
  for (let i = 0; i < size; i++) {
    let value = right[i]!;
    for (let k = 0; k < i; k++) value -= factor[i * size + k]! * right[k]!;
    right[i] = value / factor[i * size + i]!;
  }
  for (let i = size - 1; i >= 0; i--) {
    let value = right[i]!;
    for (let k = i + 1; k < size; k++) value -= factor[k * size + i]! * right[k]!;
    right[i] = value / factor[i * size + i]!;
  }
}
