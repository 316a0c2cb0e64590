export interface OrderItem {
  readonly productId: string;
  readonly quantity: number;
  /** In cents, as the product had it when the order was placed. */
  readonly price: number;
}
export interface Order {
  readonly id: string;
  readonly userId: string;
  readonly items: OrderItem[];
  readonly total: number;
}
export interface OrderRequest {
  readonly userId: string;
  readonly items: readonly Omit<OrderItem, 'price'>[];
}
