<h1>Thank you</h1>
<p>{{ grams }} g of {{ tea }}: {{ total }}</p>
